// reduce: C1-C8, compact form, integers, an empty dimension gives the initial value.
func.func @reduce_compact() {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %rows = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x3xi32>, tensor<i32>) -> tensor<2xi32>
  check.expect_eq_const %rows, dense<[6, 15]> : tensor<2xi32>
  %columns = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<2x3xi32>, tensor<i32>) -> tensor<3xi32>
  check.expect_eq_const %columns, dense<[4, 5, 6]> : tensor<3xi32>
  %all = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1, 0] : (tensor<2x3xi32>, tensor<i32>) -> tensor<i32>
  check.expect_eq_const %all, dense<21> : tensor<i32>
  %none = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [] {note = "kept"} : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>
  check.expect_eq %none, %x : tensor<2x3xi32>
  %empty = stablehlo.constant dense<> : tensor<0x2xi32>
  %seven = stablehlo.constant dense<7> : tensor<i32>
  %start = stablehlo.reduce(%empty init: %seven) applies stablehlo.multiply across dimensions = [0] : (tensor<0x2xi32>, tensor<i32>) -> tensor<2xi32>
  check.expect_eq_const %start, dense<7> : tensor<2xi32>
  func.return
}

// -----

// reduce: C1, C3, C6: two inputs, a region of its own, the place of the maximum; a middle dimension.
func.func @reduce_variadic() {
  %x = stablehlo.constant dense<[[[3.0, -1.0], [9.0, 4.0], [9.0, 2.0]]]> : tensor<1x3x2xf32>
  %i = stablehlo.iota dim = 1 : tensor<1x3x2xi32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %best:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<1x3x2xf32>, tensor<1x3x2xi32>, tensor<f32>, tensor<i32>) -> (tensor<1x2xf32>, tensor<1x2xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%p: tensor<i32>, %q: tensor<i32>) {
    %keep = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %value = stablehlo.select %keep, %a, %b : tensor<i1>, tensor<f32>
    %place = stablehlo.select %keep, %p, %q : tensor<i1>, tensor<i32>
    stablehlo.return %value, %place : tensor<f32>, tensor<i32>
  }
  check.expect_eq_const %best#0, dense<[[9.0, 4.0]]> : tensor<1x2xf32>
  check.expect_eq_const %best#1, dense<[[1, 1]]> : tensor<1x2xi32>
  func.return
}

// -----

// reduce: C6, C8: narrow integers are added up in a wider type.
func.func @reduce_promotes() {
  %x = stablehlo.constant dense<[100, 100, 100]> : tensor<3xi8>
  %zero = stablehlo.constant dense<0> : tensor<i8>
  %sum = "stablehlo.reduce"(%x, %zero) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %c = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %c : tensor<i32>
  }) : (tensor<3xi8>, tensor<i8>) -> tensor<i32>
  check.expect_eq_const %sum, dense<300> : tensor<i32>
  func.return
}

// -----

// reduce: a body that reads a tensor from outside and calls a function cannot be compiled.
func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
  %y = stablehlo.add %x, %x : tensor<f32>
  func.return %y : tensor<f32>
}
func.func @main() {
  %x = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %sum = "stablehlo.reduce"(%x, %one) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = func.call @twice(%b) : (tensor<f32>) -> tensor<f32>
    %d = stablehlo.add %a, %c : tensor<f32>
    stablehlo.return %d : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  check.expect_eq_const %sum, dense<13.0> : tensor<f32>
  func.return
}

// -----

// reduce: every kind of element: booleans, complex numbers, unsigned and narrow integers.
func.func @reduce_kinds() {
  %truth = stablehlo.constant dense<[[true, false], [true, true]]> : tensor<2x2xi1>
  %yes = stablehlo.constant dense<true> : tensor<i1>
  %all = stablehlo.reduce(%truth init: %yes) applies stablehlo.and across dimensions = [1] : (tensor<2x2xi1>, tensor<i1>) -> tensor<2xi1>
  check.expect_eq_const %all, dense<[false, true]> : tensor<2xi1>
  %z = stablehlo.constant dense<[(1.0, 2.0), (0.0, 1.0)]> : tensor<2xcomplex<f32>>
  %unit = stablehlo.constant dense<(1.0, 0.0)> : tensor<complex<f32>>
  %product = stablehlo.reduce(%z init: %unit) applies stablehlo.multiply across dimensions = [0] : (tensor<2xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  check.expect_eq_const %product, dense<(-2.0, 1.0)> : tensor<complex<f32>>
  %u = stablehlo.constant dense<[200, 100]> : tensor<2xui8>
  %u0 = stablehlo.constant dense<0> : tensor<ui8>
  %largest = stablehlo.reduce(%u init: %u0) applies stablehlo.maximum across dimensions = [0] : (tensor<2xui8>, tensor<ui8>) -> tensor<ui8>
  check.expect_eq_const %largest, dense<200> : tensor<ui8>
  %wrapped = stablehlo.reduce(%u init: %u0) applies stablehlo.add across dimensions = [0] : (tensor<2xui8>, tensor<ui8>) -> tensor<ui8>
  check.expect_eq_const %wrapped, dense<44> : tensor<ui8>
  %q = stablehlo.constant dense<[7, 1]> : tensor<2xi4>
  %q0 = stablehlo.constant dense<0> : tensor<i4>
  %narrow = stablehlo.reduce(%q init: %q0) applies stablehlo.add across dimensions = [0] : (tensor<2xi4>, tensor<i4>) -> tensor<i4>
  check.expect_eq_const %narrow, dense<-8> : tensor<i4>
  func.return
}

// -----

// reduce: a NaN spreads through a maximum.
func.func @reduce_nan() {
  %x = stablehlo.constant dense<[1.0, 0x7FC00000, 3.0]> : tensor<3xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %max = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  check.expect_eq_const %max, dense<0x7FC00000> : tensor<f32>
  func.return
}

// -----

// reduce_window: C4-C12, C15: strides, both dilations and padding, whose places hold the initial value.
func.func @reduce_window_general() {
  %x = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %init = stablehlo.constant dense<10> : tensor<i32>
  // With holes and padding: 10 1 10 2 10 3 10 4 10 10; windows take places 0 and 3, 2 and 5, 4 and 7, 6 and 9.
  %sums = "stablehlo.reduce_window"(%x, %init) <{
    window_dimensions = array<i64: 2>, window_strides = array<i64: 2>,
    base_dilations = array<i64: 2>, window_dilations = array<i64: 3>,
    padding = dense<[[1, 2]]> : tensor<1x2xi64>
  }> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %c = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %c : tensor<i32>
  }) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  check.expect_eq_const %sums, dense<[22, 23, 24, 30]> : tensor<4xi32>
  func.return
}

// -----

// reduce_window: C15: negative padding takes elements away; a window larger than the rest leaves nothing.
func.func @reduce_window_cut() {
  %x = stablehlo.constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf64>
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %cut = "stablehlo.reduce_window"(%x, %zero) <{
    window_dimensions = array<i64: 1, 2>, padding = dense<[[0, 0], [-1, 0]]> : tensor<2x2xi64>
  }> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %c = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %c : tensor<f64>
  }) : (tensor<1x4xf64>, tensor<f64>) -> tensor<1x2xf64>
  check.expect_eq_const %cut, dense<[[5.0, 7.0]]> : tensor<1x2xf64>
  %none = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 9>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %c = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %c : tensor<f64>
  }) : (tensor<1x4xf64>, tensor<f64>) -> tensor<1x0xf64>
  check.expect_eq_const %none, dense<> : tensor<1x0xf64>
  func.return
}

// -----

// reduce_window: C1, C13, C16: two inputs, the second one counted in a wider type.
func.func @reduce_window_variadic() {
  %x = stablehlo.constant dense<[3.0, 1.0, 2.0]> : tensor<3xf32>
  %n = stablehlo.constant dense<100> : tensor<3xi8>
  %high = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i8>
  %r:2 = "stablehlo.reduce_window"(%x, %n, %high, %zero) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %m: tensor<i16>, %b: tensor<f32>, %k: tensor<i16>):
    %least = stablehlo.minimum %a, %b : tensor<f32>
    %count = stablehlo.add %m, %k : tensor<i16>
    stablehlo.return %least, %count : tensor<f32>, tensor<i16>
  }) : (tensor<3xf32>, tensor<3xi8>, tensor<f32>, tensor<i8>) -> (tensor<2xf32>, tensor<2xi16>)
  check.expect_eq_const %r#0, dense<[1.0, 1.0]> : tensor<2xf32>
  check.expect_eq_const %r#1, dense<200> : tensor<2xi16>
  func.return
}

// -----

// select_and_scatter: C1-C12: overlapping windows add up where both select the same element; padding is never selected.
func.func @select_and_scatter() {
  %x = stablehlo.constant dense<[1.0, 5.0, 2.0, -7.0]> : tensor<4xf32>
  %source = stablehlo.constant dense<[10.0, 20.0, 40.0]> : tensor<3xf32>
  %init = stablehlo.constant dense<0.5> : tensor<f32>
  %r = "stablehlo.select_and_scatter"(%x, %source, %init) <{
    window_dimensions = array<i64: 2>, window_strides = array<i64: 2>,
    padding = dense<1> : tensor<1x2xi64>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<4xf32>, tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  check.expect_eq_const %r, dense<[10.5, 20.5, 0.5, 40.5]> : tensor<4xf32>
  func.return
}

// -----

// sort: C1-C5: two tensors together, a negative dimension, equal keys keep their order.
func.func @sort_pairs() {
  %keys = stablehlo.constant dense<[[3, 1, 3, 2], [0, 0, -1, 0]]> : tensor<2x4xi32>
  %values = stablehlo.iota dim = 1 : tensor<2x4xi64>
  %r:2 = "stablehlo.sort"(%keys, %values) <{dimension = -1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %p: tensor<i64>, %q: tensor<i64>):
    %less = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<2x4xi32>, tensor<2x4xi64>) -> (tensor<2x4xi32>, tensor<2x4xi64>)
  check.expect_eq_const %r#0, dense<[[1, 2, 3, 3], [-1, 0, 0, 0]]> : tensor<2x4xi32>
  check.expect_eq_const %r#1, dense<[[1, 3, 0, 2], [2, 0, 1, 3]]> : tensor<2x4xi64>
  func.return
}

// -----

// sort: C4: the first dimension, descending; a comparator that is no order must not harm; an empty slice.
func.func @sort_first() {
  %x = stablehlo.constant dense<[[1.0, 6.0], [2.0, 5.0], [3.0, 4.0]]> : tensor<3x2xf16>
  %r = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f16>, %b: tensor<f16>):
    %more = stablehlo.compare GT, %a, %b : (tensor<f16>, tensor<f16>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }) : (tensor<3x2xf16>) -> tensor<3x2xf16>
  check.expect_eq_const %r, dense<[[3.0, 6.0], [2.0, 5.0], [1.0, 4.0]]> : tensor<3x2xf16>
  %any = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f16>, %b: tensor<f16>):
    %yes = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %yes : tensor<i1>
  }) : (tensor<3x2xf16>) -> tensor<3x2xf16>
  %none = stablehlo.constant dense<> : tensor<0x2xf16>
  %empty = "stablehlo.sort"(%none) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f16>, %b: tensor<f16>):
    %more = stablehlo.compare GT, %a, %b : (tensor<f16>, tensor<f16>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }) : (tensor<0x2xf16>) -> tensor<0x2xf16>
  check.expect_eq %empty, %none : tensor<0x2xf16>
  func.return
}

// -----

// map: C1-C4: two inputs of different types.
func.func @map() {
  %x = stablehlo.constant dense<[[1.5, -2.5], [0.0, 4.0]]> : tensor<2x2xf32>
  %n = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %r = "stablehlo.map"(%x, %n) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<i32>):
    %c = stablehlo.convert %b : (tensor<i32>) -> tensor<f32>
    %d = stablehlo.multiply %a, %c : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %e = stablehlo.compare GT, %d, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %e : tensor<i1>
  }) : (tensor<2x2xf32>, tensor<2x2xi32>) -> tensor<2x2xi1>
  check.expect_eq_const %r, dense<[[true, false], [false, true]]> : tensor<2x2xi1>
  func.return
}
