//! PyTorch's optimisers by the same operators, in the same order and with the same scalars as
//! `torch.optim` has them (`foreach`, not `capturable`), so that the result is PyTorch's own. On
//! the CPU these operators are loops over those of its default, which is not `foreach`.

use warpforge_training::{Adam, LossScale, Optimizer as Rule, Recipe, Sgd};

use super::schedule::{learning_rate, power};
use crate::torch::{Fault, Layout, Library, ScalarType, Tensor, Value};

/// One trained parameter and what the rule remembers of it.
pub struct Trained {
    pub name: String,
    pub parameter: Tensor,
    pub decays: bool,
    /// The wider copy that is updated in the parameter's place.
    master: Option<Tensor>,
    exp_avg: Option<Tensor>,
    exp_avg_sq: Option<Tensor>,
    /// There is none before the first update.
    momentum: Option<Tensor>,
}

impl Trained {
    pub fn has_momentum(&self) -> bool {
        self.momentum.is_some()
    }

    /// What the rule updates.
    fn target(&self) -> &Tensor {
        self.master.as_ref().unwrap_or(&self.parameter)
    }
}

/// A gradient, by the index of its parameter.
pub struct Gradient {
    pub index: usize,
    pub tensor: Tensor,
}

struct Scale {
    rule: LossScale,
    factor: Tensor,
    good_steps: Tensor,
    /// Steps that were not left out: what `torch.optim` counts as `step`.
    updates: Tensor,
}

pub struct Optimizer {
    recipe: Recipe,
    pub trained: Vec<Trained>,
    scale: Option<Scale>,
}

/// A parameter to be trained.
pub struct Subject {
    pub name: String,
    pub parameter: Tensor,
    pub decays: bool,
    /// The type of its wider copy, if it is to have one.
    pub master: Option<ScalarType>,
}

impl Optimizer {
    pub fn new(
        recipe: &Recipe,
        subjects: Vec<Subject>,
        device: &str,
        library: &mut Library,
    ) -> Result<Self, Fault> {
        let mut trained = Vec::new();
        for Subject { name, parameter, decays, master } in subjects {
            let master = match master {
                Some(dtype) => {
                    let values = detached(library, &parameter)?.into();
                    let copied = [values, dtype.into(), false.into(), true.into()];
                    Some(library.tensor("aten::to", "dtype", &copied)?)
                }
                None => None,
            };
            let mut made = Trained {
                name,
                parameter,
                decays,
                master,
                exp_avg: None,
                exp_avg_sq: None,
                momentum: None,
            };
            if matches!(recipe.optimizer, Rule::Adam(_) | Rule::AdamW(_)) {
                let target = detached(library, made.target())?;
                let mut zeros = || library.tensor("aten::zeros_like", "", &[(&target).into()]);
                made.exp_avg = Some(zeros()?);
                made.exp_avg_sq = Some(zeros()?);
            }
            trained.push(made);
        }
        let scale = match recipe.loss_scale {
            Some(rule) => {
                let mut on_device = |bytes: &[u8], dtype: ScalarType| {
                    let tensor = Tensor::from_bytes(bytes, &Layout::dense(dtype, &[]))?;
                    let device = Value::Device(device.to_owned());
                    library.tensor("aten::to", "device", &[tensor.into(), device, dtype.into()])
                };
                let factor = on_device(&(rule.initial as f32).to_le_bytes(), ScalarType::F32)?;
                let good_steps = on_device(&0_i32.to_le_bytes(), ScalarType::I32)?;
                let updates = on_device(&0_i64.to_le_bytes(), ScalarType::I64)?;
                Some(Scale { rule, factor, good_steps, updates })
            }
            None => None,
        };
        Ok(Self { recipe: recipe.clone(), trained, scale })
    }

    pub fn learning_rate(&self, step: u32) -> f64 {
        learning_rate(&self.recipe, step)
    }

    /// The loss as gradients are taken of it.
    pub fn scaled(&self, loss: Tensor, library: &mut Library) -> Result<Tensor, Fault> {
        let mut loss = loss;
        if self.recipe.accumulation > 1 {
            let count = i64::from(self.recipe.accumulation);
            loss = library.tensor("aten::div", "Tensor", &[loss.into(), count.into()])?;
        }
        if let Some(scale) = &self.scale {
            loss = library.tensor("aten::mul", "Tensor", &[loss.into(), (&scale.factor).into()])?;
        }
        Ok(loss)
    }

    /// Takes the parameters' gradients; there is none where the loss does not depend on one.
    pub fn take(&self) -> Result<Vec<Option<Tensor>>, Fault> {
        let take = |trained: &Trained| {
            let gradient = trained.parameter.grad();
            trained.parameter.drop_grad()?;
            Ok(gradient)
        };
        self.trained.iter().map(take).collect()
    }

    /// Gradients in the type that parameters are updated in. Those of the loss itself, and
    /// whether any of them overflowed.
    pub fn gradients(
        &self,
        taken: Vec<Option<Tensor>>,
        library: &mut Library,
    ) -> Result<(Vec<Gradient>, bool), Fault> {
        let mut gradients = Vec::new();
        for ((index, trained), tensor) in self.trained.iter().enumerate().zip(taken) {
            let Some(mut tensor) = tensor else { continue };
            if let Some(dtype) = trained.master.as_ref().and_then(Tensor::dtype) {
                tensor = library.tensor("aten::to", "dtype", &[tensor.into(), dtype.into()])?;
            }
            gradients.push(Gradient { index, tensor });
        }
        let overflowed = self.unscale(&gradients, library)?;
        Ok((gradients, overflowed))
    }

    /// As `GradScaler.unscale_`.
    fn unscale(&self, gradients: &[Gradient], library: &mut Library) -> Result<bool, Fault> {
        let Some(Scale { factor, .. }) = &self.scale else { return Ok(false) };
        let to = |library: &mut Library, tensor: Tensor, dtype: ScalarType| {
            library.tensor("aten::to", "dtype", &[tensor.into(), dtype.into()])
        };
        let wide = to(library, factor.clone(), ScalarType::F64)?;
        let inverse = library.tensor("aten::reciprocal", "", &[wide.into()])?;
        let inverse = to(library, inverse, ScalarType::F32)?;
        let found = library.tensor("aten::zeros_like", "", &[factor.into()])?;
        for group in by_type(gradients.iter().map(|gradient| &gradient.tensor)) {
            library.apply(
                "aten::_amp_foreach_non_finite_check_and_unscale_",
                "",
                &[(&group).into(), (&found).into(), (&inverse).into()],
            )?;
        }
        Ok(found.number()? != 0.0)
    }

    /// As `clip_grad_norm_`; the norm before.
    pub fn clip(
        &self,
        gradients: &[Gradient],
        library: &mut Library,
    ) -> Result<Option<f64>, Fault> {
        let Some(most) = self.recipe.clip_norm else { return Ok(None) };
        let groups = by_type(gradients.iter().map(|gradient| &gradient.tensor));
        let mut norms = Vec::new();
        for group in &groups {
            norms.extend(library.tensors(
                "aten::_foreach_norm",
                "Scalar",
                &[group.into(), 2.0.into()],
            )?);
        }
        if norms.is_empty() {
            return Ok(Some(0.0));
        }
        let norms = library.tensor("aten::stack", "", &[(&norms).into()])?;
        let total = library.tensor("aten::linalg_vector_norm", "", &[norms.into(), 2.0.into()])?;
        // Python divides a number by a tensor so.
        let factor = library.tensor("aten::add", "Tensor", &[(&total).into(), 1e-6.into()])?;
        let factor = library.tensor("aten::reciprocal", "", &[factor.into()])?;
        let factor = library.tensor("aten::mul", "Tensor", &[factor.into(), most.into()])?;
        let factor =
            library.tensor("aten::clamp", "", &[factor.into(), Value::None, 1.0.into()])?;
        for group in &groups {
            library.apply("aten::_foreach_mul_", "Tensor", &[group.into(), (&factor).into()])?;
        }
        Ok(Some(total.number()?))
    }

    /// One update, or none where a gradient overflowed; the loss scale follows.
    pub fn update(
        &mut self,
        step: u32,
        gradients: Vec<Gradient>,
        overflowed: bool,
        library: &mut Library,
    ) -> Result<(), Fault> {
        if !overflowed {
            let rate = self.learning_rate(step);
            let count = self.count(step, library)?;
            for group in self.groups(gradients) {
                match self.recipe.optimizer {
                    Rule::AdamW(rule) => self.adam(rule, true, rate, count, group, library)?,
                    Rule::Adam(rule) => self.adam(rule, false, rate, count, group, library)?,
                    Rule::Sgd(rule) => self.sgd(rule, rate, group, library)?,
                }
            }
            for trained in &self.trained {
                if let Some(master) = &trained.master {
                    let arguments = [(&trained.parameter).into(), master.into()];
                    library.apply("aten::copy_", "", &arguments)?;
                }
            }
        }
        if let Some(Scale { rule, factor, good_steps, .. }) = &self.scale {
            let found = f64::from(u8::from(overflowed));
            let found = library.tensor("aten::full_like", "", &[factor.into(), found.into()])?;
            library.apply(
                "aten::_amp_update_scale_",
                "",
                &[
                    factor.into(),
                    good_steps.into(),
                    found.into(),
                    rule.growth.into(),
                    rule.backoff.into(),
                    i64::from(rule.interval).into(),
                ],
            )?;
        }
        Ok(())
    }

    /// The number of this update, counted from 1: a step that was left out is none.
    fn count(&self, step: u32, library: &mut Library) -> Result<f64, Fault> {
        let Some(Scale { updates, .. }) = &self.scale else { return Ok(f64::from(step) + 1.0) };
        library.apply("aten::add_", "Scalar", &[updates.into(), 1_i64.into()])?;
        updates.number()
    }

    /// What is updated by one call: alike in weight decay and type.
    fn groups(&self, gradients: Vec<Gradient>) -> Vec<Vec<Gradient>> {
        let key = |gradient: &Gradient| {
            let trained = &self.trained[gradient.index];
            (trained.decays, trained.target().dtype())
        };
        let mut groups: Vec<Vec<Gradient>> = Vec::new();
        for gradient in gradients {
            match groups.iter_mut().find(|group| key(&group[0]) == key(&gradient)) {
                Some(group) => group.push(gradient),
                None => groups.push(vec![gradient]),
            }
        }
        groups
    }

    fn adam(
        &self,
        rule: Adam,
        decoupled: bool,
        rate: f64,
        count: f64,
        group: Vec<Gradient>,
        library: &mut Library,
    ) -> Result<(), Fault> {
        let [beta1, beta2] = rule.betas;
        let of = |pick: fn(&Trained) -> Option<&Tensor>| -> Vec<Tensor> {
            group.iter().filter_map(|g| pick(&self.trained[g.index])).cloned().collect()
        };
        let parameters = of(|trained| Some(trained.target()));
        let exp_avg = of(|trained| trained.exp_avg.as_ref());
        let exp_avg_sq = of(|trained| trained.exp_avg_sq.as_ref());
        let decay = self.decay(rule.weight_decay, &group);
        let mut gradients: Vec<Tensor> = group.into_iter().map(|g| g.tensor).collect();
        if decay != 0.0 {
            if decoupled {
                let factor = Value::from(1.0 - rate * decay);
                library.apply("aten::_foreach_mul_", "Scalar", &[(&parameters).into(), factor])?;
            } else {
                gradients = library.tensors(
                    "aten::_foreach_add",
                    "List",
                    &[(&gradients).into(), (&parameters).into(), decay.into()],
                )?;
            }
        }
        library.apply(
            "aten::_foreach_lerp_",
            "Scalar",
            &[(&exp_avg).into(), (&gradients).into(), (1.0 - beta1).into()],
        )?;
        library.apply("aten::_foreach_mul_", "Scalar", &[(&exp_avg_sq).into(), beta2.into()])?;
        library.apply(
            "aten::_foreach_addcmul_",
            "Scalar",
            &[(&exp_avg_sq).into(), (&gradients).into(), (&gradients).into(), (1.0 - beta2).into()],
        )?;
        drop(gradients);
        let correction1 = 1.0 - power(beta1, count);
        let correction2 = power(1.0 - power(beta2, count), 0.5);
        let all = |value: f64| Value::List(vec![value.into(); parameters.len()]);
        let roots = library.tensors("aten::_foreach_sqrt", "", &[(&exp_avg_sq).into()])?;
        library.apply("aten::_foreach_div_", "ScalarList", &[(&roots).into(), all(correction2)])?;
        library.apply("aten::_foreach_add_", "Scalar", &[(&roots).into(), rule.eps.into()])?;
        let size = all(-(rate / correction1));
        let arguments = [(&parameters).into(), (&exp_avg).into(), (&roots).into(), size];
        library.apply("aten::_foreach_addcdiv_", "ScalarList", &arguments)
    }

    fn sgd(
        &mut self,
        rule: Sgd,
        rate: f64,
        group: Vec<Gradient>,
        library: &mut Library,
    ) -> Result<(), Fault> {
        let parameters: Vec<Tensor> =
            group.iter().map(|g| self.trained[g.index].target().clone()).collect();
        let decay = self.decay(rule.weight_decay, &group);
        let (indices, mut gradients): (Vec<usize>, Vec<Tensor>) =
            group.into_iter().map(|g| (g.index, g.tensor)).unzip();
        if decay != 0.0 {
            gradients = library.tensors(
                "aten::_foreach_add",
                "List",
                &[(&gradients).into(), (&parameters).into(), decay.into()],
            )?;
        }
        if rule.momentum != 0.0 {
            let mut buffers = Vec::new();
            for (index, gradient) in indices.iter().zip(&gradients) {
                let buffer = match &self.trained[*index].momentum {
                    Some(buffer) => {
                        let momentum = Value::from(rule.momentum);
                        library.apply("aten::mul_", "Scalar", &[buffer.into(), momentum])?;
                        let share = Value::from(1.0 - rule.dampening);
                        let arguments = [buffer.into(), gradient.into(), share];
                        library.apply("aten::add_", "Tensor", &arguments)?;
                        buffer.clone()
                    }
                    None => library.tensor("aten::clone", "", &[gradient.into()])?,
                };
                self.trained[*index].momentum = Some(buffer.clone());
                buffers.push(buffer);
            }
            if rule.nesterov {
                library.apply(
                    "aten::_foreach_add_",
                    "List",
                    &[(&gradients).into(), (&buffers).into(), rule.momentum.into()],
                )?;
            } else {
                gradients = buffers;
            }
        }
        let arguments = [(&parameters).into(), (&gradients).into(), (-rate).into()];
        library.apply("aten::_foreach_add_", "List", &arguments)
    }

    fn decay(&self, weight_decay: f64, group: &[Gradient]) -> f64 {
        let decays = group.first().is_some_and(|gradient| self.trained[gradient.index].decays);
        if decays { weight_decay } else { 0.0 }
    }

    /// All that is remembered, by the names of files of state.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let mut state = Vec::new();
        for trained in &self.trained {
            for (slot, tensor) in [
                ("exp_avg", &trained.exp_avg),
                ("exp_avg_sq", &trained.exp_avg_sq),
                (MOMENTUM, &trained.momentum),
                ("master", &trained.master),
            ] {
                if let Some(tensor) = tensor {
                    state.push((format!("optimizer/{slot}/{}", trained.name), tensor.clone()));
                }
            }
        }
        if let Some(scale) = &self.scale {
            state.push(("optimizer/scale".to_owned(), scale.factor.clone()));
            state.push(("optimizer/good_steps".to_owned(), scale.good_steps.clone()));
            state.push(("optimizer/updates".to_owned(), scale.updates.clone()));
        }
        state
    }

    /// Makes room for the momentum that a file of state has, and forgets what it does not have;
    /// what was there before.
    pub fn expect_momentum(
        &mut self,
        has: impl Fn(&str) -> bool,
        library: &mut Library,
    ) -> Result<Vec<Option<Tensor>>, Fault> {
        let used = matches!(self.recipe.optimizer, Rule::Sgd(sgd) if sgd.momentum != 0.0);
        let mut before = Vec::new();
        for trained in &mut self.trained {
            let mut room = None;
            if used && has(&format!("optimizer/{MOMENTUM}/{}", trained.name)) {
                let target = detached(library, trained.target())?;
                room = Some(library.tensor("aten::zeros_like", "", &[target.into()])?);
            }
            before.push(std::mem::replace(&mut trained.momentum, room));
        }
        Ok(before)
    }

    pub fn set_momentum(&mut self, momentum: Vec<Option<Tensor>>) {
        for (trained, momentum) in self.trained.iter_mut().zip(momentum) {
            trained.momentum = momentum;
        }
    }
}

pub const MOMENTUM: &str = "momentum_buffer";

/// The same values without a part in gradients.
fn detached(library: &mut Library, tensor: &Tensor) -> Result<Tensor, Fault> {
    library.tensor("aten::detach", "", &[tensor.into()])
}

/// Those of one type together, in the order of their first ones.
fn by_type<'t>(tensors: impl Iterator<Item = &'t Tensor>) -> Vec<Vec<Tensor>> {
    let mut groups: Vec<Vec<Tensor>> = Vec::new();
    for tensor in tensors {
        match groups.iter_mut().find(|group| group[0].dtype() == tensor.dtype()) {
            Some(group) => group.push(tensor.clone()),
            None => groups.push(vec![tensor.clone()]),
        }
    }
    groups
}
