// fft C1-C5: forward, inverse, real and back, an odd length.
func.func @main() {
  %x = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf64>
  %0 = stablehlo.fft %x, type = RFFT, length = [3] : (tensor<3xf64>) -> tensor<2xcomplex<f64>>
  check.expect_almost_eq_const %0, dense<[(6.0, 0.0), (-1.5, 0.86602540378443864)]> : tensor<2xcomplex<f64>>
  %1 = stablehlo.fft %0, type = IRFFT, length = [3] : (tensor<2xcomplex<f64>>) -> tensor<3xf64>
  check.expect_almost_eq_const %1, dense<[1.0, 2.0, 3.0]> : tensor<3xf64>
  %z = stablehlo.constant dense<[[(1.0, 0.0), (0.0, 1.0)], [(2.0, 0.0), (0.0, -1.0)]]> : tensor<2x2xcomplex<f32>>
  %2 = stablehlo.fft %z, type = FFT, length = [2, 2] : (tensor<2x2xcomplex<f32>>) -> tensor<2x2xcomplex<f32>>
  check.expect_almost_eq_const %2, dense<[[(3.0, 0.0), (3.0, 0.0)], [(-1.0, 2.0), (-1.0, -2.0)]]> : tensor<2x2xcomplex<f32>>
  %3 = stablehlo.fft %2, type = IFFT, length = [2, 2] : (tensor<2x2xcomplex<f32>>) -> tensor<2x2xcomplex<f32>>
  check.expect_almost_eq %3, %z : tensor<2x2xcomplex<f32>>
  return
}

// -----

// fft C5: nothing in, nothing out.
func.func @main() {
  %x = stablehlo.constant dense<> : tensor<2x0xf32>
  %0 = stablehlo.fft %x, type = RFFT, length = [0] : (tensor<2x0xf32>) -> tensor<2x0xcomplex<f32>>
  %1 = stablehlo.fft %0, type = IRFFT, length = [0] : (tensor<2x0xcomplex<f32>>) -> tensor<2x0xf32>
  check.expect_eq %1, %x : tensor<2x0xf32>
  return
}

// -----

// cholesky C1-C3: lower and upper, a batch, complex numbers.
func.func @main() {
  %a = stablehlo.constant dense<[[[4.0, 2.0], [2.0, 10.0]], [[1.0, 0.0], [0.0, 9.0]]]> : tensor<2x2x2xf32>
  %0 = stablehlo.cholesky %a, lower = true : tensor<2x2x2xf32>
  check.expect_almost_eq_const %0, dense<[[[2.0, 0.0], [1.0, 3.0]], [[1.0, 0.0], [0.0, 3.0]]]> : tensor<2x2x2xf32>
  %1 = stablehlo.cholesky %a : tensor<2x2x2xf32>
  check.expect_almost_eq_const %1, dense<[[[2.0, 1.0], [0.0, 3.0]], [[1.0, 0.0], [0.0, 3.0]]]> : tensor<2x2x2xf32>
  %z = stablehlo.constant dense<[[(1.0, 0.0), (0.0, -2.0)], [(0.0, 2.0), (5.0, 0.0)]]> : tensor<2x2xcomplex<f64>>
  %2 = "stablehlo.cholesky"(%z) {lower = true} : (tensor<2x2xcomplex<f64>>) -> tensor<2x2xcomplex<f64>>
  check.expect_almost_eq_const %2, dense<[[(1.0, 0.0), (0.0, 0.0)], [(0.0, 2.0), (1.0, 0.0)]]> : tensor<2x2xcomplex<f64>>
  return
}

// -----

// triangular_solve C1-C4: every side, triangle and transpose; what lies in the other triangle is
// not read. op(a) x = b and x op(a) = b.
func.func @main() {
  %a = stablehlo.constant dense<[[2.0, 99.0], [1.0, 4.0]]> : tensor<2x2xf64>
  %b = stablehlo.constant dense<[[2.0], [9.0]]> : tensor<2x1xf64>
  %r = stablehlo.constant dense<[[4.0, 8.0]]> : tensor<1x2xf64>
  %0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<2x2xf64>, tensor<2x1xf64>) -> tensor<2x1xf64>
  check.expect_eq_const %0, dense<[[1.0], [2.0]]> : tensor<2x1xf64>
  %1 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose TRANSPOSE>} : (tensor<2x2xf64>, tensor<2x1xf64>) -> tensor<2x1xf64>
  check.expect_eq_const %1, dense<[[-0.125], [2.25]]> : tensor<2x1xf64>
  %2 = "stablehlo.triangular_solve"(%a, %r) {left_side = false, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<2x2xf64>, tensor<1x2xf64>) -> tensor<1x2xf64>
  check.expect_eq_const %2, dense<[[1.0, 2.0]]> : tensor<1x2xf64>
  %3 = "stablehlo.triangular_solve"(%a, %r) {left_side = false, lower = false, unit_diagonal = true, transpose_a = #stablehlo<transpose ADJOINT>} : (tensor<2x2xf64>, tensor<1x2xf64>) -> tensor<1x2xf64>
  check.expect_eq_const %3, dense<[[-788.0, 8.0]]> : tensor<1x2xf64>
  return
}

// -----

// triangular_solve with the adjoint of complex coefficients, in a batch.
func.func @main() {
  %a = stablehlo.constant dense<[[[(0.0, 1.0)]], [[(2.0, 0.0)]]]> : tensor<2x1x1xcomplex<f32>>
  %b = stablehlo.constant dense<[[[(1.0, 0.0)]], [[(4.0, 2.0)]]]> : tensor<2x1x1xcomplex<f32>>
  %0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose ADJOINT>} : (tensor<2x1x1xcomplex<f32>>, tensor<2x1x1xcomplex<f32>>) -> tensor<2x1x1xcomplex<f32>>
  check.expect_eq_const %0, dense<[[[(0.0, 1.0)]], [[(2.0, 1.0)]]]> : tensor<2x1x1xcomplex<f32>>
  return
}

// -----

// rng C1-C3: numbers lie in their interval; two operations have different streams.
func.func @main() {
  %a = stablehlo.constant dense<-2> : tensor<i32>
  %b = stablehlo.constant dense<3> : tensor<i32>
  %shape = stablehlo.constant dense<[4, 8]> : tensor<2xi64>
  %0 = stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (tensor<i32>, tensor<i32>, tensor<2xi64>) -> tensor<4x8xi32>
  %low = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
  %high = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
  %1 = stablehlo.compare GE, %0, %low : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
  %2 = stablehlo.compare LT, %0, %high : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
  %3 = stablehlo.and %1, %2 : tensor<4x8xi1>
  check.expect_eq_const %3, dense<true> : tensor<4x8xi1>
  %mean = stablehlo.constant dense<5.0> : tensor<f32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %4 = stablehlo.rng %mean, %none, %shape, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<4x8xf32>
  check.expect_eq_const %4, dense<5.0> : tensor<4x8xf32>
  return
}

// -----

// rng_bit_generator C1, C2: Philox's published answers for counter and key zero, and the state after.
func.func @main() {
  %zero = stablehlo.constant dense<0> : tensor<3xui64>
  %state, %bits = stablehlo.rng_bit_generator %zero, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<2x2xui32>)
  check.expect_eq_const %bits, dense<[[0x6627e8d5, 0xe169c58d], [0xbc57ac4c, 0x9b00dbd8]]> : tensor<2x2xui32>
  check.expect_eq_const %state, dense<[0, 1, 0]> : tensor<3xui64>
  %state2, %wide = stablehlo.rng_bit_generator %zero, algorithm = DEFAULT : (tensor<3xui64>) -> (tensor<3xui64>, tensor<2xui64>)
  check.expect_eq_const %wide, dense<[0xe169c58d6627e8d5, 0x9b00dbd8bc57ac4c]> : tensor<2xui64>
  %state3, %bytes = stablehlo.rng_bit_generator %zero, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<3xui8>)
  check.expect_eq_const %bytes, dense<[0xd5, 0x8d, 0x4c]> : tensor<3xui8>
  return
}

// -----

// rng_bit_generator C2: Threefry's published answer for counter and key zero; a pair shares a block.
func.func @main() {
  %zero = stablehlo.constant dense<0> : tensor<2xui64>
  %state, %bits = stablehlo.rng_bit_generator %zero, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2xui32>)
  check.expect_eq_const %bits, dense<[0x6b200159, 0x99ba4efe]> : tensor<2xui32>
  check.expect_eq_const %state, dense<[0, 1]> : tensor<2xui64>
  %state2, %wide = stablehlo.rng_bit_generator %zero, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<1xui64>)
  check.expect_eq_const %wide, dense<[0x99ba4efe6b200159]> : tensor<1xui64>
  return
}

// -----

// uniform_quantize C1, C2: rounding half to even happens behind the zero point: 2.5 - 3 is -0.5,
// which rounds to 0. Values beyond the storage range are clamped.
func.func @main() {
  %x = stablehlo.constant dense<[2.5, 1.5, 1000.0, -1000.0]> : tensor<4xf32>
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8<-100:100>:f32, 1.0:-3>>
  %1 = stablehlo.bitcast_convert %0 : (tensor<4x!quant.uniform<i8<-100:100>:f32, 1.0:-3>>) -> tensor<4xi8>
  check.expect_eq_const %1, dense<[0, -2, 100, -100]> : tensor<4xi8>
  return
}

// -----

// uniform_dequantize C1, C2 and uniform_quantize of a quantized operand, per axis.
func.func @main() {
  %x = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %q = stablehlo.bitcast_convert %x : (tensor<2x2xi8>) -> tensor<2x2x!quant.uniform<i8:f32:0, {0.5:1, 2.0}>>
  %0 = stablehlo.uniform_dequantize %q : (tensor<2x2x!quant.uniform<i8:f32:0, {0.5:1, 2.0}>>) -> tensor<2x2xf32>
  check.expect_eq_const %0, dense<[[0.0, 0.5], [6.0, 8.0]]> : tensor<2x2xf32>
  %1 = stablehlo.uniform_quantize %q : (tensor<2x2x!quant.uniform<i8:f32:0, {0.5:1, 2.0}>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  %2 = stablehlo.bitcast_convert %1 : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2xi8>
  check.expect_eq_const %2, dense<[[0, 1], [12, 16]]> : tensor<2x2xi8>
  return
}

// -----

// Quantized arithmetic: is_finite gives booleans; multiply rounds once to the expressed type.
func.func @main() {
  %x = stablehlo.constant dense<[3, -4]> : tensor<2xi8>
  %q = stablehlo.bitcast_convert %x : (tensor<2xi8>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  %0 = stablehlo.is_finite %q : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xi1>
  check.expect_eq_const %0, dense<true> : tensor<2xi1>
  %1 = stablehlo.multiply %q, %q : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.25:2>>
  %2 = stablehlo.bitcast_convert %1 : (tensor<2x!quant.uniform<i8:f32, 0.25:2>>) -> tensor<2xi8>
  check.expect_eq_const %2, dense<[11, 18]> : tensor<2xi8>
  return
}
