// while: C1-C3, pretty form with attributes: the sum of the numbers below ten; a captured value and an unused one.
func.func @while_sum() {
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %ten = stablehlo.constant dense<10> : tensor<i64>
  %big = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi64>
  %r:3 = stablehlo.while(%i = %zero, %sum = %zero, %kept = %big) : tensor<i64>, tensor<i64>, tensor<3xi64> attributes {note = "loop"}
   cond {
    %go = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %next = stablehlo.add %i, %one : tensor<i64>
    %more = stablehlo.add %sum, %i : tensor<i64>
    stablehlo.return %next, %more, %kept : tensor<i64>, tensor<i64>, tensor<3xi64>
  }
  check.expect_eq_const %r#0, dense<10> : tensor<i64>
  check.expect_eq_const %r#1, dense<45> : tensor<i64>
  check.expect_eq_const %r#2, dense<[1, 2, 3]> : tensor<3xi64>
  func.return
}

// -----

// while: the operand is captured by the body too, and the body may run zero times; loops nest.
func.func @while_captures() {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %r = stablehlo.while(%x = %one) : tensor<i32> cond {
    %go = stablehlo.compare LT, %x, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %inner:2 = stablehlo.while(%n = %zero, %y = %x) : tensor<i32>, tensor<i32> cond {
      %go = stablehlo.compare LT, %n, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %n1 = stablehlo.add %n, %one : tensor<i32>
      %y1 = stablehlo.add %y, %one : tensor<i32>
      stablehlo.return %n1, %y1 : tensor<i32>, tensor<i32>
    }
    stablehlo.return %inner#1 : tensor<i32>
  }
  check.expect_eq_const %r, dense<4> : tensor<i32>
  %never = stablehlo.while(%x = %r) : tensor<i32> cond {
    %go = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    stablehlo.return %zero : tensor<i32>
  }
  check.expect_eq_const %never, dense<4> : tensor<i32>
  func.return
}

// -----

// if: C1-C3: both branches, several results of several kinds.
func.func @if() {
  %yes = stablehlo.constant dense<true> : tensor<i1>
  %no = stablehlo.constant dense<false> : tensor<i1>
  %a = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = stablehlo.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %first:2 = "stablehlo.if"(%yes) ({
    %token = stablehlo.create_token : !stablehlo.token
    stablehlo.return %a, %token : tensor<2xf32>, !stablehlo.token
  }, {
    %token = stablehlo.after_all : !stablehlo.token
    stablehlo.return %b, %token : tensor<2xf32>, !stablehlo.token
  }) : (tensor<i1>) -> (tensor<2xf32>, !stablehlo.token)
  check.expect_eq_const %first#0, dense<[1.0, 2.0]> : tensor<2xf32>
  %second = "stablehlo.if"(%no) ({
    stablehlo.return %a : tensor<2xf32>
  }, {
    %c = stablehlo.add %a, %b : tensor<2xf32>
    stablehlo.return %c : tensor<2xf32>
  }) : (tensor<i1>) -> tensor<2xf32>
  check.expect_eq_const %second, dense<[4.0, 6.0]> : tensor<2xf32>
  func.return
}

// -----

// case: C1-C4: an index in range, one below and one above, which both mean the last branch.
func.func private @pick(%i: tensor<i32>) -> tensor<i64> {
  %r = "stablehlo.case"(%i) ({
    %a = stablehlo.constant dense<10> : tensor<i64>
    stablehlo.return %a : tensor<i64>
  }, {
    %a = stablehlo.constant dense<20> : tensor<i64>
    stablehlo.return %a : tensor<i64>
  }, {
    %a = stablehlo.constant dense<30> : tensor<i64>
    stablehlo.return %a : tensor<i64>
  }) : (tensor<i32>) -> tensor<i64>
  func.return %r : tensor<i64>
}
func.func @main() {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %low = stablehlo.constant dense<-5> : tensor<i32>
  %high = stablehlo.constant dense<7> : tensor<i32>
  %a = func.call @pick(%one) : (tensor<i32>) -> tensor<i64>
  check.expect_eq_const %a, dense<20> : tensor<i64>
  %b = func.call @pick(%low) : (tensor<i32>) -> tensor<i64>
  check.expect_eq_const %b, dense<30> : tensor<i64>
  %c = func.call @pick(%high) : (tensor<i32>) -> tensor<i64>
  check.expect_eq_const %c, dense<30> : tensor<i64>
  func.return
}

// -----

// composite: C1-C4: evaluated by its decomposition; attributes, a version, a region that is ignored.
func.func private @shifted.impl(%x: tensor<2xi32>) -> tensor<2xi32> {
  %c = stablehlo.constant dense<5> : tensor<2xi32>
  %y = stablehlo.add %x, %c : tensor<2xi32>
  func.return %y : tensor<2xi32>
}
func.func @main() {
  %x = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %y = stablehlo.composite "mine.shifted" %x {composite_attributes = {by = 5 : i32, name = "five"}, decomposition = @shifted.impl, version = 3 : i32} : (tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq_const %y, dense<[6, 7]> : tensor<2xi32>
  %z = "stablehlo.composite"(%y) <{decomposition = @shifted.impl, name = "mine.shifted"}> ({
  ^bb0(%a: tensor<i32>):
    stablehlo.return %a : tensor<i32>
  }) : (tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq_const %z, dense<[11, 12]> : tensor<2xi32>
  func.return
}

// -----

// optimization_barrier: C1: tensors and tokens; none at all; attributes before the operands.
func.func @barrier() {
  %x = stablehlo.constant dense<1.0> : tensor<f32>
  %t = stablehlo.create_token : !stablehlo.token
  %r:2 = stablehlo.optimization_barrier %x, %t : tensor<f32>, !stablehlo.token
  check.expect_eq_const %r#0, dense<1.0> : tensor<f32>
  %s = stablehlo.optimization_barrier {note = "here"} %r#0 : tensor<f32>
  check.expect_eq_const %s, dense<1.0> : tensor<f32>
  stablehlo.optimization_barrier()
  func.return
}

// -----

// tuple: C1; get_tuple_element: C1, C2: tuples in tuples, an empty one.
func.func @tuples() {
  %x = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %none = stablehlo.tuple : tuple<>
  %inner = stablehlo.tuple %x, %none : tuple<tensor<2xi32>, tuple<>>
  %outer = "stablehlo.tuple"(%inner, %x) : (tuple<tensor<2xi32>, tuple<>>, tensor<2xi32>) -> tuple<tuple<tensor<2xi32>, tuple<>>, tensor<2xi32>>
  %a = stablehlo.get_tuple_element %outer[0] : (tuple<tuple<tensor<2xi32>, tuple<>>, tensor<2xi32>>) -> tuple<tensor<2xi32>, tuple<>>
  %b = stablehlo.get_tuple_element %a[0] : (tuple<tensor<2xi32>, tuple<>>) -> tensor<2xi32>
  check.expect_eq_const %b, dense<[1, 2]> : tensor<2xi32>
  func.return
}

// -----

// after_all, create_token: tokens in, a token out.
func.func @tokens() {
  %a = stablehlo.create_token : !stablehlo.token
  %b = stablehlo.after_all %a, %a : !stablehlo.token
  %c = "stablehlo.after_all"() : () -> !stablehlo.token
  func.return
}

// -----

// async_start: C1-C4; async_done: C1: the operands named in the body, or taken as its arguments.
func.func @asynchronous() {
  %x = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %f = "stablehlo.async_start"(%x) ({
    %s = "stablehlo.slice"(%x) <{start_indices = array<i64: 1>, limit_indices = array<i64: 3>, strides = array<i64: 1>}> : (tensor<4xi32>) -> tensor<2xi32>
    stablehlo.return %s : tensor<2xi32>
  }) : (tensor<4xi32>) -> !stablehlo.future<tensor<2xi32>>
  %r = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<2xi32>>) -> tensor<2xi32>
  check.expect_eq_const %r, dense<[2, 3]> : tensor<2xi32>
  %g = "stablehlo.async_start"(%x) ({
  ^bb0(%a: tensor<4xi32>):
    %s = "stablehlo.slice"(%a) <{start_indices = array<i64: 0>, limit_indices = array<i64: 2>, strides = array<i64: 1>}> : (tensor<4xi32>) -> tensor<2xi32>
    stablehlo.return %s : tensor<2xi32>
  }) : (tensor<4xi32>) -> !stablehlo.future<tensor<2xi32>>
  %q = "stablehlo.async_done"(%g) : (!stablehlo.future<tensor<2xi32>>) -> tensor<2xi32>
  check.expect_eq_const %q, dense<[1, 2]> : tensor<2xi32>
  func.return
}
