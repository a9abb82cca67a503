//! The dimensions of a convolution: `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.

use super::cursor::{Parse, is_word};
use super::parser::Parser;
use crate::ir::{Attr, AttrValue, Dict, Ints, lookup};

impl Parser<'_> {
    pub(super) fn conv_attr(&mut self) -> Parse<Attr> {
        self.cur.expect("<")?;
        let dict = if is_word(self.cur.peek()) {
            // The raw form: `raw input_batch_dimension = 0, …`.
            self.cur.eat_word("raw");
            return self
                .dict_between("", ">")
                .map(|dict| Attr::Struct("stablehlo.conv_raw".into(), dict));
        } else {
            self.conv_dimensions()?
        };
        self.cur.expect(">")?;
        Ok(Attr::Struct("stablehlo.conv_raw".into(), dict))
    }

    /// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`, as the fields of the raw form.
    pub(crate) fn conv_dimensions(&mut self) -> Parse<Dict> {
        let mut dict = Dict::new();
        self.conv_side(&mut dict, "input", [("b", "batch"), ("f", "feature")])?;
        self.cur.expect("x")?;
        self.conv_side(&mut dict, "kernel", [("i", "input_feature"), ("o", "output_feature")])?;
        self.cur.expect("->")?;
        self.conv_side(&mut dict, "output", [("b", "batch"), ("f", "feature")])?;
        Ok(dict)
    }

    fn conv_side(&mut self, dict: &mut Dict, side: &str, names: [(&str, &str); 2]) -> Parse<()> {
        let start = self.cur.at;
        let items = self.cur.list("[", "]", |cur| {
            if cur.eat("?") { Ok("?") } else { cur.word("a dimension's role") }
        })?;
        let find = |wanted: &str| items.iter().position(|item| *item == wanted);
        for (letter, long) in names {
            let Some(place) = find(letter) else {
                return self.cur.fail_at(start, format!("these dimensions have no `{letter}`"));
            };
            let name = format!("{side}_{long}_dimension");
            dict.push((name.into(), Attr::Int(place as i128, None)));
        }
        let mut spatial = Vec::new();
        for i in 0..items.len().saturating_sub(2) {
            let Some(place) = find(&i.to_string()) else {
                return self.cur.fail_at(start, format!("these dimensions have no `{i}`"));
            };
            spatial.push(Attr::Int(place as i128, None));
        }
        dict.push((format!("{side}_spatial_dimensions").into(), Attr::Array(spatial)));
        Ok(())
    }
}

/// `[b, 0, f]x[0, i, o]->[b, 0, f]` from the fields of the raw form.
pub(crate) fn text(dict: &Dict) -> String {
    let int = |name: String| match lookup(dict, &name) {
        Some(Attr::Int(value, _)) => *value as usize,
        _ => usize::MAX,
    };
    let side = |side: &str, roles: [(&str, &str); 2]| {
        let spatial: Vec<i64> = lookup(dict, &format!("{side}_spatial_dimensions"))
            .and_then(AttrValue::from_attr)
            .map(|ints: Ints| ints.to_vec())
            .unwrap_or_default();
        let mut items = vec!["?".to_string(); spatial.len() + 2];
        let mut set = |place: usize, text: &str| {
            if let Some(item) = items.get_mut(place) {
                *item = text.to_string();
            }
        };
        for (letter, long) in roles {
            set(int(format!("{side}_{long}_dimension")), letter);
        }
        for (i, place) in spatial.iter().enumerate() {
            set(*place as usize, &i.to_string());
        }
        format!("[{}]", items.join(", "))
    };
    let features = [("b", "batch"), ("f", "feature")];
    format!(
        "{}x{}->{}",
        side("input", features),
        side("kernel", [("i", "input_feature"), ("o", "output_feature")]),
        side("output", features)
    )
}
