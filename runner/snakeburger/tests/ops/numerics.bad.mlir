// fft C1: more lengths than dimensions.
func.func @main(%a: tensor<4xcomplex<f32>>) {
  %0 = stablehlo.fft %a, type = FFT, length = [4, 4] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return
}

// -----

// fft C2: the operand of FFT is real.
func.func @main(%a: tensor<4xf32>) {
  %0 = stablehlo.fft %a, type = FFT, length = [4] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// fft C2: the result is of another precision.
func.func @main(%a: tensor<4xf64>) {
  %0 = stablehlo.fft %a, type = RFFT, length = [4] : (tensor<4xf64>) -> tensor<3xcomplex<f32>>
  return
}

// -----

// fft C3: four dimensions.
func.func @main(%a: tensor<2x2x2x2xcomplex<f32>>) {
  %0 = stablehlo.fft %a, type = FFT, length = [2, 2, 2, 2] : (tensor<2x2x2x2xcomplex<f32>>) -> tensor<2x2x2x2xcomplex<f32>>
  return
}

// -----

// fft C3: no dimension.
func.func @main(%a: tensor<2xcomplex<f32>>) {
  %0 = stablehlo.fft %a, type = FFT, length = [] : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return
}

// -----

// fft C4: the operand is longer than the transform.
func.func @main(%a: tensor<5xf32>) {
  %0 = stablehlo.fft %a, type = RFFT, length = [4] : (tensor<5xf32>) -> tensor<3xcomplex<f32>>
  return
}

// -----

// fft C5: the result keeps the whole spectrum.
func.func @main(%a: tensor<4xf32>) {
  %0 = stablehlo.fft %a, type = RFFT, length = [4] : (tensor<4xf32>) -> tensor<4xcomplex<f32>>
  return
}

// -----

// fft C5: the operand of IRFFT holds too much.
func.func @main(%a: tensor<4xcomplex<f32>>) {
  %0 = stablehlo.fft %a, type = IRFFT, length = [4] : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  return
}

// -----

// cholesky I1: integers.
func.func @main(%a: tensor<2x2xi32>) {
  %0 = "stablehlo.cholesky"(%a) : (tensor<2x2xi32>) -> tensor<2x2xi32>
  return
}

// -----

// cholesky C1: another type.
func.func @main(%a: tensor<2x2xf32>) {
  %0 = "stablehlo.cholesky"(%a) : (tensor<2x2xf32>) -> tensor<2x2xf64>
  return
}

// -----

// cholesky C2: a vector.
func.func @main(%a: tensor<2xf32>) {
  %0 = "stablehlo.cholesky"(%a) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// cholesky C3: not square.
func.func @main(%a: tensor<2x3xf32>) {
  %0 = "stablehlo.cholesky"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// triangular_solve C1: element types.
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x1xf64>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<2x2xf32>, tensor<2x1xf64>) -> tensor<2x1xf64>
  return
}

// -----

// triangular_solve C2: ranks.
func.func @main(%a: tensor<1x2x2xf32>, %b: tensor<2x1xf32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<1x2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  return
}

// -----

// triangular_solve C3: sizes.
func.func @main(%a: tensor<2x2xf32>, %b: tensor<3x1xf32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<2x2xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  return
}

// -----

// triangular_solve C3: batches.
func.func @main(%a: tensor<4x2x2xf32>, %b: tensor<5x2x1xf32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<4x2x2xf32>, tensor<5x2x1xf32>) -> tensor<5x2x1xf32>
  return
}

// -----

// triangular_solve C4: the result.
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x1xf32>) {
  %0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  return
}

// -----

// rng I1: a is not a scalar.
func.func @main(%a: tensor<1xf32>, %b: tensor<f32>, %s: tensor<1xi64>) {
  %0 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<1xf32>, tensor<f32>, tensor<1xi64>) -> tensor<2xf32>
  return
}

// -----

// rng I3: shape is a scalar.
func.func @main(%a: tensor<f32>, %b: tensor<f32>, %s: tensor<i64>) {
  %0 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<i64>) -> tensor<2xf32>
  return
}

// -----

// rng C1: element types.
func.func @main(%a: tensor<f32>, %b: tensor<f64>, %s: tensor<1xi64>) {
  %0 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f64>, tensor<1xi64>) -> tensor<2xf32>
  return
}

// -----

// rng C2: normally distributed integers.
func.func @main(%a: tensor<i32>, %b: tensor<i32>, %s: tensor<1xi64>) {
  %0 = stablehlo.rng %a, %b, %s, distribution = NORMAL : (tensor<i32>, tensor<i32>, tensor<1xi64>) -> tensor<2xi32>
  return
}

// -----

// rng C3: the shape's length.
func.func @main(%a: tensor<f32>, %b: tensor<f32>, %s: tensor<2xi64>) {
  %0 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

// rng_bit_generator I2: the state's type.
func.func @main(%s: tensor<2xui32>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<2xui32>) -> (tensor<2xui32>, tensor<2xui32>)
  return
}

// -----

// rng_bit_generator C1: the states' types.
func.func @main(%s: tensor<2xui64>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<3xui64>, tensor<2xui32>)
  return
}

// -----

// rng_bit_generator C2: Threefry with three words.
func.func @main(%s: tensor<3xui64>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<3xui64>) -> (tensor<3xui64>, tensor<2xui32>)
  return
}

// -----

// rng_bit_generator C2: Philox with four words.
func.func @main(%s: tensor<4xui64>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<4xui64>) -> (tensor<4xui64>, tensor<2xui32>)
  return
}

// -----

// uniform_quantize I1: integers.
func.func @main(%a: tensor<2xi32>) {
  %0 = stablehlo.uniform_quantize %a : (tensor<2xi32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// uniform_quantize C1: shapes.
func.func @main(%a: tensor<3xf32>) {
  %0 = stablehlo.uniform_quantize %a : (tensor<3xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// uniform_quantize C2: another type is expressed.
func.func @main(%a: tensor<2xf16>) {
  %0 = stablehlo.uniform_quantize %a : (tensor<2xf16>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// uniform_dequantize I1: not quantized.
func.func @main(%a: tensor<2xf32>) {
  %0 = stablehlo.uniform_dequantize %a : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// uniform_dequantize C1: shapes.
func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  %0 = stablehlo.uniform_dequantize %a : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<3xf32>
  return
}

// -----

// uniform_dequantize C2: another type is expressed.
func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  %0 = stablehlo.uniform_dequantize %a : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xf64>
  return
}

// -----

// ceil C1: storage types of a quantized operand and result differ.
func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  %0 = stablehlo.ceil %a : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i16:f32, 0.5>>
  return
}
