// slice: C2, C3, C5; strides of one are left out of the text.
func.func @plain() {
  %x = stablehlo.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]> : tensor<3x4xi16>
  %y = stablehlo.slice %x [1:3, 0:2] : (tensor<3x4xi16>) -> tensor<2x2xi16>
  check.expect_eq_const %y, dense<[[5, 6], [9, 10]]> : tensor<2x2xi16>
  func.return
}

// -----

// slice: C4, C5: strides, and a limit that is not a whole number of them.
func.func @strided() {
  %x = stablehlo.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0], [11.0, 12.0, 13.0, 14.0, 15.0]]> : tensor<3x5xf64>
  %y = "stablehlo.slice"(%x) <{start_indices = array<i64: 0, 1>, limit_indices = array<i64: 3, 5>, strides = array<i64: 2, 3>}> : (tensor<3x5xf64>) -> tensor<2x2xf64>
  check.expect_eq_const %y, dense<[[2.0, 5.0], [12.0, 15.0]]> : tensor<2x2xf64>
  func.return
}

// -----

// slice: C1, C3: an empty slice, of complex numbers.
func.func @empty() {
  %x = stablehlo.constant dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f64>>
  %none = stablehlo.slice %x [2:2] : (tensor<2xcomplex<f64>>) -> tensor<0xcomplex<f64>>
  %last = stablehlo.slice %x [1:2:9] : (tensor<2xcomplex<f64>>) -> tensor<1xcomplex<f64>>
  check.expect_eq_const %none, dense<> : tensor<0xcomplex<f64>>
  check.expect_eq_const %last, dense<[(3.0, 4.0)]> : tensor<1xcomplex<f64>>
  func.return
}

// -----

// slice: a scalar has no dimension to slice, and a dynamic one only has to be long enough.
func.func private @part(%x: tensor<?xi32>) -> tensor<2xi32> {
  %y = stablehlo.slice %x [1:3] : (tensor<?xi32>) -> tensor<2xi32>
  func.return %y : tensor<2xi32>
}
func.func @main() {
  %s = stablehlo.constant dense<true> : tensor<i1>
  %t = stablehlo.slice %s [] : (tensor<i1>) -> tensor<i1>
  check.expect_eq_const %t, dense<true> : tensor<i1>
  %n = stablehlo.constant dense<4> : tensor<1xi64>
  %x = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi64>) -> tensor<?xi32>
  %y = func.call @part(%x) : (tensor<?xi32>) -> tensor<2xi32>
  check.expect_eq_const %y, dense<[1, 2]> : tensor<2xi32>
  func.return
}

// -----

// dynamic_slice: C2, C4, C5; starts before and behind the operand are moved inside.
func.func @dynamic() {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6], [7, 8, 9]]> : tensor<3x3xui8>
  %low = stablehlo.constant dense<-7> : tensor<i32>
  %high = stablehlo.constant dense<7> : tensor<i32>
  %a = stablehlo.dynamic_slice %x, %low, %high, sizes = [2, 2] : (tensor<3x3xui8>, tensor<i32>, tensor<i32>) -> tensor<2x2xui8>
  check.expect_eq_const %a, dense<[[2, 3], [5, 6]]> : tensor<2x2xui8>
  func.return
}

// -----

// dynamic_slice: C3; an unsigned start beyond the signed range is large, not negative.
func.func @unsigned() {
  %x = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  %start = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
  %a = stablehlo.dynamic_slice %x, %start, sizes = [1] : (tensor<4xi64>, tensor<ui64>) -> tensor<1xi64>
  check.expect_eq_const %a, dense<[4]> : tensor<1xi64>
  func.return
}

// -----

// dynamic_slice: C1 on quantized elements; the codes move as they are.
func.func @quantized() {
  %x = stablehlo.constant dense<[7, 8, 9]> : tensor<3xi8>
  %i = stablehlo.constant dense<1> : tensor<i32>
  %q = stablehlo.bitcast_convert %x : (tensor<3xi8>) -> tensor<3x!quant.uniform<i8:f32, 0.5:3>>
  %s = stablehlo.dynamic_slice %q, %i, sizes = [2] : (tensor<3x!quant.uniform<i8:f32, 0.5:3>>, tensor<i32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  %y = stablehlo.bitcast_convert %s : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xi8>
  check.expect_eq_const %y, dense<[8, 9]> : tensor<2xi8>
  func.return
}

// -----

// dynamic_update_slice: C1 to C6; the start is moved inside, the operand stays as it was.
func.func @update() {
  %x = stablehlo.constant dense<0> : tensor<3x3xi32>
  %u = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %i = stablehlo.constant dense<9> : tensor<i64>
  %j = stablehlo.constant dense<-1> : tensor<i64>
  %y = stablehlo.dynamic_update_slice %x, %u, %i, %j : (tensor<3x3xi32>, tensor<2x2xi32>, tensor<i64>, tensor<i64>) -> tensor<3x3xi32>
  check.expect_eq_const %y, dense<[[0, 0, 0], [1, 2, 0], [3, 4, 0]]> : tensor<3x3xi32>
  check.expect_eq_const %x, dense<0> : tensor<3x3xi32>
  func.return
}

// -----

// dynamic_update_slice: C6, an empty update changes nothing; a scalar is replaced whole.
func.func @update_edges() {
  %x = stablehlo.constant dense<[1, 2]> : tensor<2xi4>
  %u = stablehlo.constant dense<> : tensor<0xi4>
  %i = stablehlo.constant dense<2> : tensor<i32>
  %y = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<2xi4>, tensor<0xi4>, tensor<i32>) -> tensor<2xi4>
  check.expect_eq_const %y, dense<[1, 2]> : tensor<2xi4>
  %a = stablehlo.constant dense<1.5> : tensor<bf16>
  %b = stablehlo.constant dense<2.5> : tensor<bf16>
  %c = stablehlo.dynamic_update_slice %a, %b : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
  check.expect_eq_const %c, dense<2.5> : tensor<bf16>
  func.return
}

// -----

// real_dynamic_slice: start, limit and strides as values.
func.func @real() {
  %x = stablehlo.constant dense<[[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]> : tensor<2x5xi32>
  %start = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
  %limit = stablehlo.constant dense<[2, 5]> : tensor<2xi32>
  %stride = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %y = stablehlo.real_dynamic_slice %x, %start, %limit, %stride : (tensor<2x5xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x3xi32>
  %shape = stablehlo.constant dense<[1, 3]> : tensor<2xi64>
  %z = stablehlo.dynamic_reshape %y, %shape : (tensor<?x3xi32>, tensor<2xi64>) -> tensor<1x3xi32>
  check.expect_eq_const %z, dense<[[6, 8, 10]]> : tensor<1x3xi32>
  func.return
}
