//! Regions of scalar operations as straight-line programs over single elements.
//!
//! Reductions, scatters and sorts apply their region once per element; going through tensors of
//! rank 0 each time would cost a hundred times the arithmetic.

use rustc_hash::FxHashMap;

use super::tensor::Num;
use crate::ir::{DType, Graph, Module, RegionId, Ty, ValueId};

/// One elementwise operation at fixed element types, on single elements.
pub type LaneFn = Box<dyn Fn(&[Num]) -> Num + Send + Sync>;

struct Step {
    lane: LaneFn,
    inputs: Vec<usize>,
    /// The register the result goes to.
    output: usize,
}

/// A region as a function from elements to elements.
pub struct Program {
    steps: Vec<Step>,
    constants: Vec<(usize, Num)>,
    outputs: Vec<usize>,
    registers: usize,
    /// The region is exactly `op(argument 0, argument 1)`: its operation's name.
    pub single: Option<&'static str>,
}

impl Program {
    /// Compiles a region if all of it is elementwise on scalars. `outer` gives the values of
    /// scalars that the region captures.
    pub fn compile(
        module: &Module,
        graph: &Graph,
        region: RegionId,
        outer: &dyn Fn(ValueId) -> Option<Num>,
    ) -> Option<Program> {
        let mut registers: FxHashMap<ValueId, usize> = FxHashMap::default();
        let mut constants = Vec::new();
        let mut steps = Vec::new();
        for argument in graph.arguments(region) {
            scalar_type(module, graph, argument)?;
            registers.insert(argument, registers.len());
        }
        let (last, body) = graph.region(region).nodes.split_last()?;
        for node in body {
            let mut ins = Vec::new();
            let mut inputs = Vec::new();
            for operand in graph.operands(*node) {
                ins.push(scalar_type(module, graph, *operand)?);
                inputs.push(register(*operand, &mut registers, &mut constants, outer)?);
            }
            let results: Vec<ValueId> = graph.results(*node).collect();
            let [result] = results[..] else { return None };
            let out = scalar_type(module, graph, result)?;
            let lane = graph.node(*node).op.lane(&ins, out)?;
            let output = registers.len();
            registers.insert(result, output);
            steps.push(Step { lane, inputs, output });
        }
        let mut outputs = Vec::new();
        for operand in graph.operands(*last) {
            outputs.push(register(*operand, &mut registers, &mut constants, outer)?);
        }
        let single = match (&steps[..], body) {
            ([step], [node]) if step.inputs == [0, 1] && outputs == [step.output] => {
                Some(graph.node(*node).op.name())
            }
            _ => None,
        };
        Some(Program { steps, constants, outputs, registers: registers.len(), single })
    }

    /// Scratch space for [`Program::run`], made once per loop.
    pub fn scratch(&self) -> Vec<Num> {
        let mut scratch = vec![Num::B(false); self.registers];
        for (register, value) in &self.constants {
            scratch[*register] = *value;
        }
        scratch
    }

    /// Runs the program: arguments go into the first registers of `scratch`.
    pub fn run(&self, scratch: &mut [Num]) {
        let mut inputs = smallvec::SmallVec::<[Num; 4]>::new();
        for step in &self.steps {
            inputs.clear();
            inputs.extend(step.inputs.iter().map(|register| scratch[*register]));
            scratch[step.output] = (step.lane)(&inputs);
        }
    }

    /// Output `i` after a run.
    pub fn output(&self, scratch: &[Num], i: usize) -> Num {
        scratch[self.outputs[i]]
    }
}

fn scalar_type(module: &Module, graph: &Graph, value: ValueId) -> Option<DType> {
    match module.value_ty(graph, value) {
        Ty::Tensor(ty) if ty.rank() == 0 => ty.dtype(),
        _ => None,
    }
}

/// The register of a value; a captured scalar becomes a constant.
fn register(
    value: ValueId,
    registers: &mut FxHashMap<ValueId, usize>,
    constants: &mut Vec<(usize, Num)>,
    outer: &dyn Fn(ValueId) -> Option<Num>,
) -> Option<usize> {
    if let Some(register) = registers.get(&value) {
        return Some(*register);
    }
    let register = registers.len();
    constants.push((register, outer(value)?));
    registers.insert(value, register);
    Some(register)
}
