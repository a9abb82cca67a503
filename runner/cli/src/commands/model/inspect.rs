//! `warpforge model inspect`: inputs, outputs, weights, operators, cost, what is unsupported.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use warpforge_pt2::{Arg, InputKind, Model, OutputKind, TensorMeta};
use warpforge_snakeburger::stats;
use warpforge_snakegrinder::{Error, aten, lower};

use super::{Given, misuse, open};
use crate::exit::Exit;
use crate::table;
use crate::ui::{BOLD, RED, Ui};

const EXAMPLES: &str = "\
Examples:
  warpforge model inspect bert.pt2
  warpforge model inspect bert.pt2 --dim input_ids.0=8
  warpforge model inspect bert.pt2 --json | jq .parameters.count";

/// Show a model's inputs, outputs, weights, operators and cost
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A model saved by torch.export.save
    file: PathBuf,

    #[command(flatten)]
    given: Given,

    /// Print JSON (`warpforge schema model` describes it)
    #[arg(long)]
    json: bool,
}

/// What a model consists of.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Inspection {
    /// The torch that exported it.
    torch_version: String,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    parameters: Weights,
    buffers: Weights,
    /// Tensors the model holds without naming them.
    constants: Weights,
    /// Whether the archive holds the weights, or only their names and shapes.
    has_weights: bool,
    /// Groups of names that are one tensor.
    tied: Vec<Vec<String>>,
    /// Sizes left open at export.
    open_sizes: Vec<String>,
    /// Calls by operator, the most frequent first.
    operators: Vec<Operator>,
    /// Cost of one run; absent while sizes are open or operators are unsupported.
    cost: Option<Cost>,
    /// What cannot be lowered, with the first place it occurs.
    unsupported: Vec<Unsupported>,
}

/// An input or output.
#[derive(Debug, Serialize, JsonSchema)]
struct Port {
    name: String,
    /// Its element type and sizes, such as `float32[8, 128]`.
    r#type: String,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct Weights {
    count: usize,
    elements: u64,
    bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Operator {
    name: String,
    count: usize,
    supported: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Cost {
    /// Floating-point operations; a multiply-add counts as two.
    flops: u64,
    /// Bytes of operands and results, as if nothing were fused.
    bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Unsupported {
    operator: String,
    why: String,
    count: usize,
    module: String,
    source: Option<String>,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let mut model = open(&args.file)?;
    if !args.given.dims.is_empty() || model.symbols.is_empty() {
        model.specialise(&args.given.dims).map_err(|error| misuse(&error))?;
    }
    let inspection = inspect(&model)?;
    if args.json {
        ui.json(&inspection)?;
    } else {
        show(&inspection, ui)?;
    }
    Ok(Exit::Pass)
}

fn inspect(model: &Model) -> anyhow::Result<Inspection> {
    let mut operators: BTreeMap<String, Operator> = BTreeMap::new();
    model.graph.each_node(&mut |node| {
        let name = node.call.to_string();
        let supported = aten::is_known(&node.call);
        operators.entry(name.clone()).or_insert(Operator { name, count: 0, supported }).count += 1;
    });
    let mut operators: Vec<Operator> = operators.into_values().collect();
    operators.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    let (cost, unsupported) = cost(model)?;
    let weights = |wanted: &dyn Fn(InputKind) -> bool| {
        let mut total = Weights::default();
        let mut seen = std::collections::BTreeSet::new();
        for input in model.inputs.iter().filter(|input| wanted(input.kind)) {
            if !model.weights.group(&input.name).is_none_or(|group| seen.insert(group)) {
                continue;
            }
            if let Some((dtype, dims)) = model.weights.shape(&input.name) {
                let elements = dims.iter().map(|dim| *dim as u64).product::<u64>();
                total.count += 1;
                total.elements += elements;
                total.bytes += elements * dtype.bytes() as u64;
            }
        }
        total
    };
    Ok(Inspection {
        torch_version: model.torch_version.clone(),
        inputs: model
            .user_inputs()
            .map(|input| Port { name: input.name.to_string(), r#type: shown(input.meta.as_ref()) })
            .collect(),
        outputs: outputs(model),
        parameters: weights(&|kind| kind == InputKind::Parameter),
        buffers: weights(&|kind| matches!(kind, InputKind::Buffer { .. })),
        constants: weights(&|kind| kind == InputKind::Constant),
        has_weights: model.weights.complete(),
        tied: tied(model),
        open_sizes: model.symbols.iter().map(ToString::to_string).collect(),
        operators,
        cost,
        unsupported,
    })
}

fn outputs(model: &Model) -> Vec<Port> {
    let tensors = model.outputs.iter().filter_map(|output| {
        let Arg::Value(id) = output.arg else { return None };
        let name = match &output.kind {
            OutputKind::Mutation(name) => format!("{} (new content of {name})", output.name),
            _ => output.name.to_string(),
        };
        Some(Port { name, r#type: shown(model.graph.value(id).meta.as_ref()) })
    });
    tensors.collect()
}

fn shown(meta: Option<&TensorMeta>) -> String {
    meta.map_or_else(
        || "a number".to_owned(),
        |meta| {
            let sizes: Vec<String> = meta.sizes.iter().map(ToString::to_string).collect();
            format!("{}[{}]", meta.dtype, sizes.join(", "))
        },
    )
}

fn tied(model: &Model) -> Vec<Vec<String>> {
    let mut groups: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for name in model.weights.names() {
        if let Some(group) = model.weights.group(name) {
            groups.entry(group).or_default().push(name.to_owned());
        }
    }
    groups.into_values().filter(|names| names.len() > 1).collect()
}

/// The cost of the lowered program, or why there is none.
fn cost(model: &Model) -> anyhow::Result<(Option<Cost>, Vec<Unsupported>)> {
    if !model.symbols.is_empty() {
        return Ok((None, Vec::new()));
    }
    match lower(model) {
        Ok(program) => {
            let (flops, bytes) = stats::cost_of_run(program.module.module(), "main");
            Ok((Some(Cost { flops, bytes }), Vec::new()))
        }
        Err(Error::Unsupported(list)) => {
            let list = list.into_iter().map(|one| Unsupported {
                operator: one.call,
                why: one.why,
                count: one.count,
                module: one.module,
                source: one.source,
            });
            Ok((None, list.collect()))
        }
        Err(error) => Err(error.into()),
    }
}

fn show(inspection: &Inspection, ui: &mut Ui) -> std::io::Result<()> {
    let heading = |text: &str| table::Cell::styled(text, BOLD);
    let mut rows = vec![vec![heading("inputs")]];
    let port = |port: &Port| vec![format!("  {}", port.name).into(), port.r#type.clone().into()];
    rows.extend(inspection.inputs.iter().map(port));
    rows.push(vec![heading("outputs")]);
    rows.extend(inspection.outputs.iter().map(port));
    rows.push(vec![heading("weights")]);
    let kinds = [
        ("parameters", &inspection.parameters),
        ("buffers", &inspection.buffers),
        ("constants", &inspection.constants),
    ];
    for (name, weights) in kinds.iter().filter(|(_, weights)| weights.count > 0) {
        rows.push(vec![
            format!("  {} {name}", weights.count).into(),
            format!("{} elements, {} bytes", weights.elements, weights.bytes).into(),
        ]);
    }
    for names in &inspection.tied {
        rows.push(vec!["  tied".into(), names.join(" = ").into()]);
    }
    if !inspection.has_weights {
        rows.push(vec!["  saved without weights".into()]);
    }
    rows.push(vec![heading("operators")]);
    for operator in &inspection.operators {
        let mut row = vec![
            format!("  {}", operator.name).into(),
            table::Cell::from(operator.count.to_string()),
        ];
        if !operator.supported {
            row.push(table::Cell::styled("unsupported", RED));
        }
        rows.push(row);
    }
    table::write(ui.out(), 0, &rows)?;
    writeln!(ui.out())?;
    for size in &inspection.open_sizes {
        writeln!(ui.out(), "open size: {size}")?;
    }
    if let Some(cost) = &inspection.cost {
        writeln!(
            ui.out(),
            "one run: {} FLOPs, {} bytes moved if nothing is fused",
            cost.flops,
            cost.bytes
        )?;
    }
    for one in &inspection.unsupported {
        write!(
            ui.out(),
            "{RED}unsupported:{RED:#} {} ({} times): {}",
            one.operator,
            one.count,
            one.why
        )?;
        if !one.module.is_empty() {
            write!(ui.out(), ", in {}", one.module)?;
        }
        if let Some(source) = &one.source {
            write!(ui.out(), ", at {source}")?;
        }
        writeln!(ui.out())?;
    }
    ui.note(&format!("exported by torch {}", inspection.torch_version))
}
