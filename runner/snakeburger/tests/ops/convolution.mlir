// convolution C2-C9, C25: strides, padding, both dilations in one dimension.
// The padded, dilated input is 0 1 0 2 0 3 0; taps lie two apart.
func.func @main() {
  %lhs = stablehlo.constant dense<[[[1], [2], [3]]]> : tensor<1x3x1xi32>
  %rhs = stablehlo.constant dense<[[[10]], [[1]]]> : tensor<2x1x1xi32>
  %0 = stablehlo.convolution(%lhs, %rhs) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[1, 1]], lhs_dilate = [2], rhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x1xi32>, tensor<2x1x1xi32>) -> tensor<1x5x1xi32>
  check.expect_eq_const %0, dense<[[[0], [12], [0], [23], [0]]]> : tensor<1x5x1xi32>
  %1 = stablehlo.convolution(%lhs, %rhs) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = [[1, 1]], lhs_dilate = [2], rhs_dilate = [2], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x1xi32>, tensor<2x1x1xi32>) -> tensor<1x3x1xi32>
  check.expect_eq_const %1, dense<0> : tensor<1x3x1xi32>
  %2 = stablehlo.convolution(%lhs, %rhs) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {reverse = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x1xi32>, tensor<2x1x1xi32>) -> tensor<1x2x1xi32>
  check.expect_eq_const %2, dense<[[[21], [32]]]> : tensor<1x2x1xi32>
  return
}

// -----

// convolution: negative padding crops; a window larger than the input gives nothing.
func.func @main() {
  %lhs = stablehlo.constant dense<[[[1.0], [2.0], [3.0], [4.0]]]> : tensor<1x4x1xf32>
  %rhs = stablehlo.constant dense<1.0> : tensor<2x1x1xf32>
  %0 = stablehlo.convolution(%lhs, %rhs) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[-1, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x1xf32>, tensor<2x1x1xf32>) -> tensor<1x2x1xf32>
  check.expect_eq_const %0, dense<[[[5.0], [7.0]]]> : tensor<1x2x1xf32>
  %1 = stablehlo.convolution(%lhs, %rhs) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[-1, -2]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x1xf32>, tensor<2x1x1xf32>) -> tensor<1x0x1xf32>
  check.expect_eq_const %1, dense<> : tensor<1x0x1xf32>
  return
}

// -----

// convolution C11, C14, C16: two feature groups; dimensions in an unusual order.
func.func @main() {
  %lhs = stablehlo.constant dense<[[[1, 2, 3]], [[4, 5, 6]]]> : tensor<2x1x3xi64>
  %rhs = stablehlo.constant dense<[[[1], [10]], [[2], [20]], [[3], [30]], [[4], [40]]]> : tensor<4x2x1xi64>
  %0 = stablehlo.convolution(%lhs, %rhs) dim_numbers = [f, b, 0]x[o, 0, i]->[0, f, b], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x1x3xi64>, tensor<4x2x1xi64>) -> tensor<2x4x1xi64>
  check.expect_eq_const %0, dense<[[[21], [42], [162], [216]], [[32], [64], [195], [260]]]> : tensor<2x4x1xi64>
  return
}

// -----

// convolution C10, C15: two batch groups, complex numbers.
func.func @main() {
  %lhs = stablehlo.constant dense<[[[(1.0, 0.0)]], [[(0.0, 2.0)]]]> : tensor<2x1x1xcomplex<f64>>
  %rhs = stablehlo.constant dense<[[[(3.0, 0.0), (0.0, 1.0)]]]> : tensor<1x1x2xcomplex<f64>>
  %0 = stablehlo.convolution(%lhs, %rhs) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<2x1x1xcomplex<f64>>, tensor<1x1x2xcomplex<f64>>) -> tensor<1x1x2xcomplex<f64>>
  check.expect_eq_const %0, dense<[[[(3.0, 0.0), (-2.0, 0.0)]]]> : tensor<1x1x2xcomplex<f64>>
  return
}

// -----

// convolution without spatial dimensions is a matrix product; raw dimension numbers, generic form.
func.func @main() {
  %lhs = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xbf16>
  %rhs = stablehlo.constant dense<[[1.0], [10.0]]> : tensor<2x1xbf16>
  %0 = "stablehlo.convolution"(%lhs, %rhs) {
    batch_group_count = 1 : i64, feature_group_count = 1 : i64,
    padding = dense<> : tensor<0x2xi64>,
    dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 1,
      kernel_input_feature_dimension = 0, kernel_output_feature_dimension = 1,
      output_batch_dimension = 0, output_feature_dimension = 1>
  } : (tensor<2x2xbf16>, tensor<2x1xbf16>) -> tensor<2x1xbf16>
  check.expect_eq_const %0, dense<[[21.0], [43.0]]> : tensor<2x1xbf16>
  return
}

// -----

// convolution C28-C33: quantized, kernel and result per axis. 0.5 * 4 = 2 and 1.0 * 4 = 4.
func.func @main() {
  %a = stablehlo.constant dense<[[[8]]]> : tensor<1x1x1xi8>
  %b = stablehlo.constant dense<[[[1, 1]]]> : tensor<1x1x2xi8>
  %lhs = stablehlo.bitcast_convert %a : (tensor<1x1x1xi8>) -> tensor<1x1x1x!quant.uniform<i8:f32, 0.5>>
  %rhs = stablehlo.bitcast_convert %b : (tensor<1x1x2xi8>) -> tensor<1x1x2x!quant.uniform<i8:f32:2, {0.5, 1.0}>>
  %0 = stablehlo.convolution(%lhs, %rhs) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x1x2x!quant.uniform<i8:f32:2, {0.5, 1.0}>>) -> tensor<1x1x2x!quant.uniform<i8:f32:2, {1.0:3, 0.5:-1}>>
  %1 = stablehlo.bitcast_convert %0 : (tensor<1x1x2x!quant.uniform<i8:f32:2, {1.0:3, 0.5:-1}>>) -> tensor<1x1x2xi8>
  check.expect_eq_const %1, dense<[[[5, 7]]]> : tensor<1x1x2xi8>
  return
}

// -----

// convolution C34: float input, quantized kernel.
func.func @main() {
  %lhs = stablehlo.constant dense<[[[1.0], [2.0]]]> : tensor<1x2x1xf32>
  %b = stablehlo.constant dense<[[[3]], [[5]]]> : tensor<2x1x1xi8>
  %rhs = stablehlo.bitcast_convert %b : (tensor<2x1x1xi8>) -> tensor<2x1x1x!quant.uniform<i8:f32, 0.5:1>>
  %0 = stablehlo.convolution(%lhs, %rhs) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x1xf32>, tensor<2x1x1x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<1x1x1xf32>
  check.expect_eq_const %0, dense<5.0> : tensor<1x1x1xf32>
  return
}

// -----

// dynamic_conv C4, C25: the padding is a value, in the pretty form.
func.func @main() {
  %lhs = stablehlo.constant dense<[[[1.0], [2.0]]]> : tensor<1x2x1xf32>
  %rhs = stablehlo.constant dense<1.0> : tensor<2x1x1xf32>
  %padding = stablehlo.constant dense<[[1, 1]]> : tensor<1x2xi32>
  %0 = stablehlo.dynamic_conv(%lhs, %rhs, %padding) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi32>) -> tensor<1x?x1xf32>
  %1 = stablehlo.reshape %0 : (tensor<1x?x1xf32>) -> tensor<3xf32>
  check.expect_eq_const %1, dense<[1.0, 3.0, 2.0]> : tensor<3xf32>
  return
}
