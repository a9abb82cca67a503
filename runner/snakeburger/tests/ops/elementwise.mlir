// abs: C1, C2 (a complex operand gives its parts' type)
func.func @abs() {
  %0 = stablehlo.constant dense<[-2, 0, 127]> : tensor<3xi8>
  %1 = stablehlo.abs %0 : tensor<3xi8>
  check.expect_eq_const %1, dense<[2, 0, 127]> : tensor<3xi8>
  %2 = stablehlo.constant dense<[(3.0, -4.0), (0.0, 0.0)]> : tensor<2xcomplex<f32>>
  %3 = stablehlo.abs %2 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  check.expect_eq_const %3, dense<[5.0, 0.0]> : tensor<2xf32>
  func.return
}

// -----

// add, subtract, multiply on booleans, wrapping integers, floats and complex numbers
func.func @arithmetic() {
  %t = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %f = stablehlo.constant dense<[false, false]> : tensor<2xi1>
  %0 = stablehlo.add %t, %f : tensor<2xi1>
  check.expect_eq_const %0, dense<[true, false]> : tensor<2xi1>
  %1 = stablehlo.multiply %t, %f : tensor<2xi1>
  check.expect_eq_const %1, dense<[false, false]> : tensor<2xi1>
  %a = stablehlo.constant dense<[127, -128]> : tensor<2xi8>
  %b = stablehlo.constant dense<[1, -1]> : tensor<2xi8>
  %2 = stablehlo.add %a, %b : tensor<2xi8>
  check.expect_eq_const %2, dense<[-128, 127]> : tensor<2xi8>
  %3 = stablehlo.subtract %b, %a : tensor<2xi8>
  check.expect_eq_const %3, dense<[-126, 127]> : tensor<2xi8>
  %4 = stablehlo.multiply %a, %a : tensor<2xi8>
  check.expect_eq_const %4, dense<[1, 0]> : tensor<2xi8>
  %u = stablehlo.constant dense<[255, 16]> : tensor<2xui8>
  %5 = stablehlo.add %u, %u : tensor<2xui8>
  check.expect_eq_const %5, dense<[254, 32]> : tensor<2xui8>
  %n = stablehlo.constant dense<[7, -8]> : tensor<2xi4>
  %6 = stablehlo.add %n, %n : tensor<2xi4>
  check.expect_eq_const %6, dense<[-2, 0]> : tensor<2xi4>
  %x = stablehlo.constant dense<[(1.0, 2.0)]> : tensor<1xcomplex<f64>>
  %7 = stablehlo.multiply %x, %x : tensor<1xcomplex<f64>>
  check.expect_eq_const %7, dense<[(-3.0, 4.0)]> : tensor<1xcomplex<f64>>
  func.return
}

// -----

// and, or, xor, not, popcnt, count_leading_zeros and the shifts
func.func @bits() {
  %a = stablehlo.constant dense<[12, -1]> : tensor<2xi16>
  %b = stablehlo.constant dense<[10, 1]> : tensor<2xi16>
  %0 = stablehlo.and %a, %b : tensor<2xi16>
  check.expect_eq_const %0, dense<[8, 1]> : tensor<2xi16>
  %1 = stablehlo.or %a, %b : tensor<2xi16>
  check.expect_eq_const %1, dense<[14, -1]> : tensor<2xi16>
  %2 = stablehlo.xor %a, %b : tensor<2xi16>
  check.expect_eq_const %2, dense<[6, -2]> : tensor<2xi16>
  %3 = stablehlo.not %a : tensor<2xi16>
  check.expect_eq_const %3, dense<[-13, 0]> : tensor<2xi16>
  %4 = stablehlo.popcnt %a : tensor<2xi16>
  check.expect_eq_const %4, dense<[2, 16]> : tensor<2xi16>
  %5 = stablehlo.count_leading_zeros %a : tensor<2xi16>
  check.expect_eq_const %5, dense<[12, 0]> : tensor<2xi16>
  %s = stablehlo.constant dense<[1, 20]> : tensor<2xi16>
  %6 = stablehlo.shift_left %a, %s : tensor<2xi16>
  check.expect_eq_const %6, dense<[24, 0]> : tensor<2xi16>
  %7 = stablehlo.shift_right_arithmetic %a, %s : tensor<2xi16>
  check.expect_eq_const %7, dense<[6, -1]> : tensor<2xi16>
  %8 = stablehlo.shift_right_logical %a, %s : tensor<2xi16>
  check.expect_eq_const %8, dense<[6, 0]> : tensor<2xi16>
  func.return
}

// -----

// divide, remainder, power, sign, negate on integers and floats
func.func @division() {
  %a = stablehlo.constant dense<[-7, 7, 5]> : tensor<3xi32>
  %b = stablehlo.constant dense<[2, -2, 0]> : tensor<3xi32>
  %0 = stablehlo.divide %a, %b : tensor<3xi32>
  check.expect_eq_const %0, dense<[-3, -3, -1]> : tensor<3xi32>
  %1 = stablehlo.remainder %a, %b : tensor<3xi32>
  check.expect_eq_const %1, dense<[-1, 1, 5]> : tensor<3xi32>
  %2 = stablehlo.power %a, %b : tensor<3xi32>
  check.expect_eq_const %2, dense<[49, 0, 1]> : tensor<3xi32>
  %3 = stablehlo.sign %a : tensor<3xi32>
  check.expect_eq_const %3, dense<[-1, 1, 1]> : tensor<3xi32>
  %4 = stablehlo.negate %a : tensor<3xi32>
  check.expect_eq_const %4, dense<[7, -7, -5]> : tensor<3xi32>
  %x = stablehlo.constant dense<[-7.5, 0.0, 0x7FC00000]> : tensor<3xf32>
  %y = stablehlo.constant dense<[2.0, 0.0, 1.0]> : tensor<3xf32>
  %5 = stablehlo.divide %x, %y : tensor<3xf32>
  check.expect_eq_const %5, dense<[-3.75, 0x7FC00000, 0x7FC00000]> : tensor<3xf32>
  %6 = stablehlo.remainder %x, %y : tensor<3xf32>
  check.expect_eq_const %6, dense<[-1.5, 0x7FC00000, 0x7FC00000]> : tensor<3xf32>
  %7 = stablehlo.sign %x : tensor<3xf32>
  check.expect_eq_const %7, dense<[-1.0, 0.0, 0x7FC00000]> : tensor<3xf32>
  func.return
}

// -----

// maximum and minimum: NaN wins, positive zero is the larger
func.func @extremes() {
  %x = stablehlo.constant dense<[1.0, 0x7E00, -0.0]> : tensor<3xf16>
  %y = stablehlo.constant dense<[2.0, 1.0, 0.0]> : tensor<3xf16>
  %0 = stablehlo.maximum %x, %y : tensor<3xf16>
  check.expect_eq_const %0, dense<[2.0, 0x7E00, 0.0]> : tensor<3xf16>
  %1 = stablehlo.minimum %x, %y : tensor<3xf16>
  check.expect_eq_const %1, dense<[1.0, 0x7E00, -0.0]> : tensor<3xf16>
  %a = stablehlo.constant dense<[200, 1]> : tensor<2xui8>
  %b = stablehlo.constant dense<[100, 2]> : tensor<2xui8>
  %2 = stablehlo.maximum %a, %b : tensor<2xui8>
  check.expect_eq_const %2, dense<[200, 2]> : tensor<2xui8>
  %3 = stablehlo.minimum %a, %b : tensor<2xui8>
  check.expect_eq_const %3, dense<[100, 1]> : tensor<2xui8>
  func.return
}

// -----

// ceil, floor, round_nearest_afz, round_nearest_even, is_finite
func.func @rounding() {
  %x = stablehlo.constant dense<[-2.5, -0.4, 0.5, 2.5, 0x7F800000]> : tensor<5xf32>
  %0 = stablehlo.ceil %x : tensor<5xf32>
  check.expect_eq_const %0, dense<[-2.0, -0.0, 1.0, 3.0, 0x7F800000]> : tensor<5xf32>
  %1 = stablehlo.floor %x : tensor<5xf32>
  check.expect_eq_const %1, dense<[-3.0, -1.0, 0.0, 2.0, 0x7F800000]> : tensor<5xf32>
  %2 = stablehlo.round_nearest_afz %x : tensor<5xf32>
  check.expect_eq_const %2, dense<[-3.0, -0.0, 1.0, 3.0, 0x7F800000]> : tensor<5xf32>
  %3 = stablehlo.round_nearest_even %x : tensor<5xf32>
  check.expect_eq_const %3, dense<[-2.0, -0.0, 0.0, 2.0, 0x7F800000]> : tensor<5xf32>
  %4 = stablehlo.is_finite %x : (tensor<5xf32>) -> tensor<5xi1>
  check.expect_eq_const %4, dense<[true, true, true, true, false]> : tensor<5xi1>
  func.return
}

// -----

// the mathematical functions at points with known values
func.func @functions() {
  %x = stablehlo.constant dense<[0.0, 1.0, 0.25]> : tensor<3xf64>
  %0 = stablehlo.exponential %x : tensor<3xf64>
  check.expect_almost_eq_const %0, dense<[1.0, 2.718281828459045, 1.2840254166877414]> : tensor<3xf64>
  %1 = stablehlo.exponential_minus_one %x : tensor<3xf64>
  check.expect_almost_eq_const %1, dense<[0.0, 1.718281828459045, 0.2840254166877415]> : tensor<3xf64>
  %2 = stablehlo.log_plus_one %x : tensor<3xf64>
  check.expect_almost_eq_const %2, dense<[0.0, 0.6931471805599453, 0.22314355131420976]> : tensor<3xf64>
  %3 = stablehlo.logistic %x : tensor<3xf64>
  check.expect_almost_eq_const %3, dense<[0.5, 0.7310585786300049, 0.5621765008857981]> : tensor<3xf64>
  %4 = stablehlo.tanh %x : tensor<3xf64>
  check.expect_almost_eq_const %4, dense<[0.0, 0.7615941559557649, 0.24491866240370913]> : tensor<3xf64>
  %5 = stablehlo.sine %x : tensor<3xf64>
  check.expect_almost_eq_const %5, dense<[0.0, 0.8414709848078965, 0.24740395925452294]> : tensor<3xf64>
  %6 = stablehlo.cosine %x : tensor<3xf64>
  check.expect_almost_eq_const %6, dense<[1.0, 0.5403023058681398, 0.9689124217106447]> : tensor<3xf64>
  %7 = stablehlo.tan %x : tensor<3xf64>
  check.expect_almost_eq_const %7, dense<[0.0, 1.5574077246549023, 0.25534192122103627]> : tensor<3xf64>
  %8 = stablehlo.sqrt %x : tensor<3xf64>
  check.expect_eq_const %8, dense<[0.0, 1.0, 0.5]> : tensor<3xf64>
  %9 = stablehlo.rsqrt %x : tensor<3xf64>
  check.expect_eq_const %9, dense<[0x7FF0000000000000, 1.0, 2.0]> : tensor<3xf64>
  %10 = stablehlo.cbrt %x : tensor<3xf64>
  check.expect_almost_eq_const %10, dense<[0.0, 1.0, 0.6299605249474366]> : tensor<3xf64>
  %11 = stablehlo.log %x : tensor<3xf64>
  check.expect_almost_eq_const %11, dense<[0xFFF0000000000000, 0.0, -1.3862943611198906]> : tensor<3xf64>
  %12 = stablehlo.atan2 %x, %0 : tensor<3xf64>
  check.expect_almost_eq_const %12, dense<[0.0, 0.3525134217776189, 0.19229887772685]> : tensor<3xf64>
  func.return
}

// -----

// complex, real, imag
func.func @parts() {
  %re = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %im = stablehlo.constant dense<[0.5, 0.0]> : tensor<2xf32>
  %0 = stablehlo.complex %re, %im : tensor<2xcomplex<f32>>
  check.expect_eq_const %0, dense<[(1.0, 0.5), (-2.0, 0.0)]> : tensor<2xcomplex<f32>>
  %1 = stablehlo.real %0 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  check.expect_eq %1, %re : tensor<2xf32>, tensor<2xf32>
  %2 = stablehlo.imag %0 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  check.expect_eq %2, %im : tensor<2xf32>, tensor<2xf32>
  func.return
}

// -----

// compare in every direction and order
func.func @comparison() {
  %x = stablehlo.constant dense<[1.0, -0.0, 0x7FC00000]> : tensor<3xf32>
  %y = stablehlo.constant dense<[2.0, 0.0, 0x7FC00000]> : tensor<3xf32>
  %0 = stablehlo.compare LT, %x, %y, FLOAT : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  check.expect_eq_const %0, dense<[true, false, false]> : tensor<3xi1>
  %1 = stablehlo.compare NE, %x, %y : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  check.expect_eq_const %1, dense<[true, false, true]> : tensor<3xi1>
  %2 = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  check.expect_eq_const %2, dense<[true, true, false]> : tensor<3xi1>
  %a = stablehlo.constant dense<[255, 1]> : tensor<2xui8>
  %b = stablehlo.constant dense<[1, 1]> : tensor<2xui8>
  %3 = stablehlo.compare GE, %a, %b, UNSIGNED : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xi1>
  check.expect_eq_const %3, dense<[true, true]> : tensor<2xi1>
  %c = stablehlo.constant dense<[-1, 1]> : tensor<2xi8>
  %d = stablehlo.constant dense<[1, 1]> : tensor<2xi8>
  %4 = stablehlo.compare GT, %c, %d, SIGNED : (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi1>
  check.expect_eq_const %4, dense<[false, false]> : tensor<2xi1>
  %5 = stablehlo.compare LE, %c, %d, SIGNED : (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi1>
  check.expect_eq_const %5, dense<[true, true]> : tensor<2xi1>
  func.return
}

// -----

// select with a scalar and with a tensor predicate, clamp with scalars and tensors
func.func @choice() {
  %p = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %q = stablehlo.constant dense<false> : tensor<i1>
  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %b = stablehlo.constant dense<[3, 4]> : tensor<2xi64>
  %0 = stablehlo.select %p, %a, %b : tensor<2xi1>, tensor<2xi64>
  check.expect_eq_const %0, dense<[1, 4]> : tensor<2xi64>
  %1 = stablehlo.select %q, %a, %b : tensor<i1>, tensor<2xi64>
  check.expect_eq_const %1, dense<[3, 4]> : tensor<2xi64>
  %x = stablehlo.constant dense<[-5.0, 0.5, 9.0]> : tensor<3xbf16>
  %low = stablehlo.constant dense<-1.0> : tensor<bf16>
  %high = stablehlo.constant dense<[1.0, 1.0, 2.0]> : tensor<3xbf16>
  %2 = stablehlo.clamp %low, %x, %high : (tensor<bf16>, tensor<3xbf16>, tensor<3xbf16>) -> tensor<3xbf16>
  check.expect_eq_const %2, dense<[-1.0, 0.5, 2.0]> : tensor<3xbf16>
  func.return
}

// -----

// convert, bitcast_convert, reduce_precision
func.func @conversion() {
  %x = stablehlo.constant dense<[1.75, -1.75, 0.0]> : tensor<3xf32>
  %0 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xi8>
  check.expect_eq_const %0, dense<[1, -1, 0]> : tensor<3xi8>
  %1 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xi1>
  check.expect_eq_const %1, dense<[true, true, false]> : tensor<3xi1>
  %2 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xcomplex<f64>>
  check.expect_eq_const %2, dense<[(1.75, 0.0), (-1.75, 0.0), (0.0, 0.0)]> : tensor<3xcomplex<f64>>
  %3 = stablehlo.bitcast_convert %x : (tensor<3xf32>) -> tensor<3x2xui16>
  check.expect_eq_const %3, dense<[[0, 16352], [0, 49120], [0, 0]]> : tensor<3x2xui16>
  %4 = stablehlo.bitcast_convert %3 : (tensor<3x2xui16>) -> tensor<3xf32>
  check.expect_eq %4, %x : tensor<3xf32>, tensor<3xf32>
  %5 = stablehlo.reduce_precision %x, format = e5m0 : tensor<3xf32>
  check.expect_eq_const %5, dense<[2.0, -2.0, 0.0]> : tensor<3xf32>
  func.return
}

// -----

// constant, iota, reshape, broadcast_in_dim, transpose
func.func @shapes() {
  %0 = stablehlo.iota dim = 1 : tensor<2x3xi32>
  check.expect_eq_const %0, dense<[[0, 1, 2], [0, 1, 2]]> : tensor<2x3xi32>
  %1 = stablehlo.reshape %0 : (tensor<2x3xi32>) -> tensor<3x2xi32>
  check.expect_eq_const %1, dense<[[0, 1], [2, 0], [1, 2]]> : tensor<3x2xi32>
  %2 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>
  check.expect_eq_const %2, dense<[[0, 0], [1, 1], [2, 2]]> : tensor<3x2xi32>
  %v = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi32>
  %3 = stablehlo.broadcast_in_dim %v, dims = [2, 0] : (tensor<2x1xi32>) -> tensor<3x1x2xi32>
  check.expect_eq_const %3, dense<[[[1, 2]], [[1, 2]], [[1, 2]]]> : tensor<3x1x2xi32>
  func.return
}

// -----

// func.call and custom_call with a check target
func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

func.func @main() {
  %0 = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %1 = call @twice(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = stablehlo.constant dense<[2.0, -4.0]> : tensor<2xf32>
  stablehlo.custom_call @check.expect_eq(%1, %2) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  check.expect_almost_eq %1, %2 : tensor<2xf32>, tensor<2xf32>
  check.expect_close %1, %2 {max_ulp_difference = 1 : i64} : tensor<2xf32>, tensor<2xf32>
  return
}
