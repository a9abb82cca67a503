//! Regions applied to single elements: compiled where that is possible, evaluated otherwise.

use rayon::prelude::*;

use super::scalar::Program;
use super::{Cx, EvalResult, Interpreter, Num, Tensor, Value};
use crate::ir::{RegionId, TensorTy, Ty};

/// A region as a function of single elements. Quantized elements are passed as they are stored.
pub(crate) trait Apply {
    fn apply(&mut self, arguments: &[Num], results: &mut [Num]) -> EvalResult<()>;
}

struct Compiled<'p, 'm> {
    program: &'p Program,
    scratch: Vec<Num>,
    interpreter: &'p Interpreter<'m>,
    calls: u16,
}

impl Apply for Compiled<'_, '_> {
    fn apply(&mut self, arguments: &[Num], results: &mut [Num]) -> EvalResult<()> {
        self.calls = self.calls.wrapping_add(1);
        if self.calls == 0 {
            self.interpreter.check_time()?;
        }
        self.scratch[..arguments.len()].copy_from_slice(arguments);
        self.program.run(&mut self.scratch);
        for (i, result) in results.iter_mut().enumerate() {
            *result = self.program.output(&self.scratch, i);
        }
        Ok(())
    }
}

struct Evaluated<'c, 'a, 'm> {
    cx: &'c mut Cx<'a, 'm>,
    region: usize,
    types: Vec<&'m TensorTy>,
}

impl Apply for Evaluated<'_, '_, '_> {
    fn apply(&mut self, arguments: &[Num], results: &mut [Num]) -> EvalResult<()> {
        let value = |(ty, num): (&&TensorTy, &Num)| {
            let mut tensor = Tensor::zeros((*ty).clone());
            tensor.set(0, *num);
            Value::Tensor(tensor)
        };
        let values = self.types.iter().zip(arguments).map(value).collect();
        let yielded = self.cx.region(self.region, values)?;
        for (result, value) in results.iter_mut().zip(yielded) {
            *result = match value {
                Value::Tensor(tensor) if tensor.rank() == 0 => tensor.get(0),
                other => {
                    let message = format!("the region yields {}, not a scalar", other.ty());
                    return Err(self.cx.error(message));
                }
            };
        }
        Ok(())
    }
}

impl<'m> Cx<'_, 'm> {
    /// The scalar types region `i` takes; an error unless it takes and yields this many.
    pub(crate) fn scalars(
        &self,
        i: usize,
        takes: usize,
        yields: usize,
    ) -> EvalResult<Vec<&'m TensorTy>> {
        let region = self.region_id(i)?;
        let types = self.scalar_arguments(region);
        match types {
            Some(types) if types.len() == takes && self.graph().yields(region).len() == yields => {
                Ok(types)
            }
            _ => {
                Err(self.error(format!("region {i} must take {takes} scalars and yield {yields}")))
            }
        }
    }

    fn scalar_arguments(&self, region: RegionId) -> Option<Vec<&'m TensorTy>> {
        let (module, graph) = (self.module(), self.graph());
        let ty = |value| match module.value_ty(graph, value) {
            Ty::Tensor(ty) if ty.rank() == 0 => Some(ty),
            _ => None,
        };
        graph.arguments(region).map(ty).collect()
    }

    /// Does `task` for each number below `count`, handing it region `i`: in parallel if the
    /// region compiles. The results come in order.
    pub(crate) fn each<T: Send>(
        &mut self,
        i: usize,
        count: usize,
        task: impl Fn(&mut dyn Apply, usize) -> EvalResult<T> + Sync,
    ) -> EvalResult<Vec<T>> {
        let interpreter = self.interpreter;
        if let Some(program) = self.program(i)? {
            let start = || Compiled {
                program: &program,
                scratch: program.scratch(),
                interpreter,
                calls: 0,
            };
            let step = |compiled: &mut Compiled<'_, '_>, number| task(compiled, number);
            return (0..count).into_par_iter().map_init(start, step).collect();
        }
        let region = self.region_id(i)?;
        let Some(types) = self.scalar_arguments(region) else {
            return Err(self.error(format!("region {i} must take scalars")));
        };
        let mut evaluated = Evaluated { cx: self, region: i, types };
        (0..count).map(|number| task(&mut evaluated, number)).collect()
    }
}
