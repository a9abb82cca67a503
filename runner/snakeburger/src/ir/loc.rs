//! Locations: where in the source program an operation comes from.

use rustc_hash::FxHashMap;

/// A location as MLIR has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Loc {
    Unknown,
    File {
        file: Box<str>,
        line: u32,
        column: u32,
    },
    Name {
        name: Box<str>,
        child: Option<LocId>,
    },
    CallSite {
        callee: LocId,
        caller: LocId,
    },
    Fused(Box<[LocId]>),
    /// A form that is kept as it was written.
    Opaque(Box<str>),
}

/// A location's place in its module's [`LocTable`]; 0 is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LocId(pub u32);

/// Every distinct location of a module, stored once.
#[derive(Clone, Debug)]
pub struct LocTable {
    locs: Vec<Loc>,
    ids: FxHashMap<Loc, LocId>,
}

impl Default for LocTable {
    fn default() -> Self {
        let ids = [(Loc::Unknown, LocId(0))].into_iter().collect();
        Self { locs: vec![Loc::Unknown], ids }
    }
}

impl LocTable {
    pub fn intern(&mut self, loc: Loc) -> LocId {
        if let Some(id) = self.ids.get(&loc) {
            return *id;
        }
        let id = LocId(u32::try_from(self.locs.len()).expect("fewer than 2^32 locations"));
        self.locs.push(loc.clone());
        self.ids.insert(loc, id);
        id
    }

    pub fn get(&self, id: LocId) -> &Loc {
        &self.locs[id.0 as usize]
    }

    /// The outermost name of a location, if it has one: snakegrinder's node and module path.
    pub fn name(&self, id: LocId) -> Option<&str> {
        match self.get(id) {
            Loc::Name { name, .. } => Some(name),
            Loc::CallSite { callee, .. } => self.name(*callee),
            Loc::Fused(parts) => parts.iter().find_map(|part| self.name(*part)),
            _ => None,
        }
    }

    /// The location as MLIR text, without the surrounding `loc(…)`.
    pub fn text(&self, id: LocId) -> String {
        match self.get(id) {
            Loc::Unknown => "unknown".into(),
            Loc::File { file, line, column } => format!("{file:?}:{line}:{column}"),
            Loc::Name { name, child: None } => format!("{name:?}"),
            Loc::Name { name, child: Some(child) } => format!("{name:?}({})", self.text(*child)),
            Loc::CallSite { callee, caller } => {
                format!("callsite({} at {})", self.text(*callee), self.text(*caller))
            }
            Loc::Fused(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.text(*part)).collect();
                format!("fused[{}]", parts.join(", "))
            }
            Loc::Opaque(text) => text.to_string(),
        }
    }
}
