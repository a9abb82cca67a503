//! Messages between processes, and streams to and from the outside.

use super::collective::nothing;
use super::groups::{ChannelHandle, Rows, Strategy, partners};
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::parallel::Meeting;
use crate::eval::{Cx, EvalResult, Value};
use crate::ir::Ty;
use crate::text::Form;

const TOKEN_LAST: Arity = Arity {
    operands: Count::AtLeast(1),
    results: Count::Exactly(1),
    regions: Count::Exactly(0),
    tensors: false,
};

const TOKEN_FIRST: Arity =
    Arity { operands: Count::Exactly(1), results: Count::AtLeast(1), ..TOKEN_LAST };

/// Requires tensors and a token behind them.
fn tensors_then_token(c: &mut Check<'_>, what: &str, types: &[&Ty], tensors: &str, token: &str) {
    let Some((last, payload)) = types.split_last() else { return };
    for (i, ty) in payload.iter().enumerate() {
        c.require(ty.as_tensor().is_some(), tensors, || format!("{what} {i} is {ty}, no tensor"));
    }
    c.require(**last == Ty::Token, token, || format!("the last {what} is {last}, no token"));
}

fn check_token(c: &mut Check<'_>) {
    let found = c.operand_types()[0];
    c.require(*found == Ty::Token, "I1", || format!("the operand is {found}, no token"));
}

/// The two names under which a message is known: sender and receiver, or the channel alone.
///
/// On a grid with one row or one column the pairs number its processes. Elsewhere they number
/// partitions, since a channel's id is positive.
struct Route {
    to: Option<Meeting>,
    from: Option<Meeting>,
}

const MESSAGE: &str = "stablehlo.recv";

fn route(
    cx: &Cx<'_, '_>,
    handle: ChannelHandle,
    host: bool,
    pairs: Option<&Rows>,
) -> EvalResult<Route> {
    let channel = handle.handle;
    let meeting = |members: Vec<usize>| Meeting { op: MESSAGE, channel, members };
    // The host gives what it got on a channel back to whoever asks for it there.
    let Some(pairs) = pairs.filter(|pairs| !host && pairs.count > 0) else {
        let shared = Some(meeting(Vec::new()));
        return Ok(Route { to: shared.clone(), from: shared });
    };
    let process = &cx.interpreter.process;
    let across = process.grid.partitions > 1 && (channel > 0 || process.grid.replicas == 1);
    let strategy = if across { Strategy::CrossPartition } else { Strategy::CrossReplica };
    let (to, from) = partners(cx, pairs, strategy)?;
    Ok(Route {
        to: to.map(|to| meeting(vec![process.id, to])),
        from: from.map(|from| meeting(vec![from, process.id])),
    })
}

fn check_channel(c: &mut Check<'_>, handle: ChannelHandle, host: bool, host_kinds: &[i64]) {
    let fits = if host { host_kinds.contains(&handle.kind) } else { handle.kind == 1 };
    c.require(fits, "C5", || {
        format!("channel type {} with is_host_transfer = {host}", handle.kind)
    });
}

payload! {
    /// Sends values to a channel.
    Send {
        channel_handle: ChannelHandle,
        is_host_transfer: bool = false,
        source_target_pairs: Option<Rows> = None,
    }
}

impl OpDef for Send {
    const NAME: &'static str = "stablehlo.send";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = TOKEN_LAST;

    fn check(&self, c: &mut Check<'_>) {
        let types = c.operand_types().to_vec();
        tensors_then_token(c, "operand", &types, "I1", "I2");
        if let Some(pairs) = &self.source_target_pairs {
            pairs.check_pairs(c);
        }
        check_channel(c, self.channel_handle, self.is_host_transfer, &[2]);
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Types(vec![Ty::Token])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let pairs = self.source_target_pairs.as_ref();
        let route = route(cx, self.channel_handle, self.is_host_transfer, pairs)?;
        let inputs = (0..cx.operand_count() - 1).map(|i| cx.operand(i).cloned());
        if let Some(to) = route.to {
            cx.interpreter.process.post(to, inputs.collect::<Result<_, _>>()?);
        }
        Ok(vec![Value::Token])
    }

    columns!(Opaque, Exact, Zero);
}

payload! {
    /// Receives values from a channel.
    Recv {
        channel_handle: ChannelHandle,
        is_host_transfer: bool = false,
        source_target_pairs: Option<Rows> = None,
    }
}

impl OpDef for Recv {
    const NAME: &'static str = MESSAGE;
    const FORM: Form = Form::Generic;
    const ARITY: Arity = TOKEN_FIRST;

    fn check(&self, c: &mut Check<'_>) {
        check_token(c);
        let types = c.result_types().to_vec();
        tensors_then_token(c, "result", &types, "O1", "O1");
        if let Some(pairs) = &self.source_target_pairs {
            pairs.check_pairs(c);
        }
        // The specification's table knows two kinds, the text form has a third for this direction.
        check_channel(c, self.channel_handle, self.is_host_transfer, &[2, 3]);
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let pairs = self.source_target_pairs.as_ref();
        let route = route(cx, self.channel_handle, self.is_host_transfer, pairs)?;
        let deadline = cx.interpreter.limits.deadline;
        let values = match route.from {
            Some(from) => cx.interpreter.process.take(&from, deadline)?,
            // Nobody sends here: zeros, as `collective_permute` gives.
            None => (0..payload_count(cx))
                .map(|i| Ok(nothing(cx, cx.result_ty(i)?)?.into()))
                .collect::<EvalResult>()?,
        };
        arrived(cx, values)
    }

    columns!(Opaque, Exact, Missing("comes from another process"));
}

fn payload_count(cx: &Cx<'_, '_>) -> usize {
    cx.graph().results(cx.node).len().saturating_sub(1)
}

/// Holds what came against what was declared, and puts the token behind it.
fn arrived(cx: &Cx<'_, '_>, mut values: Vec<Value>) -> EvalResult {
    let wanted = payload_count(cx);
    if values.len() != wanted {
        return Err(cx.error(format!("{} values came, {wanted} were expected", values.len())));
    }
    for (i, value) in values.iter().enumerate() {
        let (found, wanted) = (value.ty(), Ty::Tensor(cx.result_ty(i)?.clone()));
        if !found.compatible(&wanted) {
            return Err(cx.error(format!("{found} came where {wanted} was expected")));
        }
    }
    values.push(Value::Token);
    Ok(values)
}

payload! {
    /// Reads values from the outside.
    Infeed { infeed_config: Box<str> = "".into(), layout: Option<crate::ir::Attr> = None }
}

impl OpDef for Infeed {
    const NAME: &'static str = "stablehlo.infeed";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = TOKEN_FIRST;

    fn check(&self, c: &mut Check<'_>) {
        check_token(c);
        let types = c.result_types().to_vec();
        tensors_then_token(c, "result", &types, "C2", "C3");
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let Some(function) = cx.interpreter.process.next_infeed() else {
            return Err(cx.error("the infeed has no more values"));
        };
        let values = cx.call(&function, Vec::new())?;
        arrived(cx, values)
    }

    columns!(Opaque, Exact, Zero);
}

payload! {
    /// Writes values to the outside, where nobody reads them.
    Outfeed { outfeed_config: Box<str> = "".into() }
}

impl OpDef for Outfeed {
    const NAME: &'static str = "stablehlo.outfeed";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = TOKEN_LAST;

    fn check(&self, c: &mut Check<'_>) {
        let types = c.operand_types().to_vec();
        tensors_then_token(c, "operand", &types, "I1", "I2");
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Types(vec![Ty::Token])
    }

    fn eval(&self, _: &mut Cx<'_, '_>) -> EvalResult {
        Ok(vec![Value::Token])
    }

    columns!(Opaque, Exact, Zero);
}

#[cfg(test)]
mod tests {
    use crate::eval::{EvalResult, Interpreter, Value};
    use crate::text;

    /// Runs `@p` and `@q` as two replicas with a token each.
    fn run(functions: &str) -> EvalResult {
        let main = r#"
            func.func @main(%t: !stablehlo.token) -> tensor<2xi64> {
              %r:2 = "interpreter.run_parallel"(%t, %t) {infeed = [@one, @two], programs = [[@p], [@q]]}
                : (!stablehlo.token, !stablehlo.token) -> (!stablehlo.token, tensor<2xi64>)
              return %r#1 : tensor<2xi64>
            }
            func.func @one() -> tensor<2xi64> {
              %0 = stablehlo.constant dense<1> : tensor<2xi64>
              return %0 : tensor<2xi64>
            }
            func.func @two() -> tensor<2xi64> {
              %0 = stablehlo.constant dense<2> : tensor<2xi64>
              return %0 : tensor<2xi64>
            }"#;
        let module = text::parse(&format!("{main}{functions}"), text::Options::default()).unwrap();
        assert_eq!(crate::verify::problems(&module), []);
        Interpreter::new(&module).call("main", vec![Value::Token])
    }

    fn sender(channel: &str) -> String {
        format!(
            r#"func.func @p(%t: !stablehlo.token) -> !stablehlo.token {{
              %0:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
              %1:2 = "stablehlo.infeed"(%0#1) : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
              %2 = "stablehlo.send"(%1#0, %1#1) {{{channel}}} : (tensor<2xi64>, !stablehlo.token) -> !stablehlo.token
              %3 = "stablehlo.outfeed"(%1#0, %2) : (tensor<2xi64>, !stablehlo.token) -> !stablehlo.token
              return %3 : !stablehlo.token
            }}"#
        )
    }

    fn receiver(channel: &str) -> String {
        format!(
            r#"func.func @q(%t: !stablehlo.token) -> tensor<2xi64> {{
              %0:2 = "stablehlo.recv"(%t) {{{channel}}} : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
              return %0#0 : tensor<2xi64>
            }}"#
        )
    }

    #[test]
    fn messages_arrive_between_devices_and_by_way_of_the_host() {
        let handle =
            |kind| format!("channel_handle = #stablehlo.channel_handle<handle = 3, type = {kind}>");
        let pairs = "source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>";
        let device = format!("{}, is_host_transfer = false, {pairs}", handle(1));
        let host = |kind| format!("{}, is_host_transfer = true", handle(kind));
        for (to, from) in [(device.clone(), device), (host(2), host(3))] {
            let got = run(&(sender(&to) + &receiver(&from))).unwrap();
            let [Value::Tensor(tensor)] = &got[..] else { panic!("{got:?}") };
            assert_eq!(&*tensor.ints(), &[2, 2]);
        }
    }

    #[test]
    fn waiting_for_what_never_comes_is_an_error() {
        let silent = "func.func @p(%t: !stablehlo.token) -> !stablehlo.token { return %t : !stablehlo.token }";
        let channel = "channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>";
        let error = run(&(silent.to_string() + &receiver(channel))).unwrap_err();
        assert_eq!(
            error.message,
            "stablehlo.recv: process (1, 0) waits, but no process can go on: all wait for each other"
        );
    }
}
