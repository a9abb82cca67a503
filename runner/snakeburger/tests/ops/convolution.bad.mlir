// convolution C1: ranks differ.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf32>, tensor<2x2xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C2, C3: strides.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1, 0]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C4: padding.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[0, 0], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C5, C6: input dilation.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {lhs_dilate = [1, -1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C7, C8: window dilation.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {rhs_dilate = [0, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C9: reversal.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C10: the batch cannot be divided.
func.func @main(%a: tensor<3x4x2xf32>, %b: tensor<2x2x4xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<3x4x2xf32>, tensor<2x2x4xf32>) -> tensor<1x3x4xf32>
  return
}

// -----

// convolution C11: the input features cannot be divided.
func.func @main(%a: tensor<1x4x3xf32>, %b: tensor<2x1x4xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x4x3xf32>, tensor<2x1x4xf32>) -> tensor<1x3x4xf32>
  return
}

// -----

// convolution C12: too many input spatial dimensions.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 2, input_spatial_dimensions = [1, 1], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [0], output_batch_dimension = 0, output_feature_dimension = 2, output_spatial_dimensions = [1]>} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C13: an input dimension twice.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 0, input_spatial_dimensions = [1], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [0], output_batch_dimension = 0, output_feature_dimension = 2, output_spatial_dimensions = [1]>} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C14: the kernel's input features.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x3x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf32>, tensor<2x3x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C15: the output features cannot be divided by the batch groups.
func.func @main(%a: tensor<2x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<2x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C16: the output features cannot be divided by the feature groups.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x1x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x4x2xf32>, tensor<2x1x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C17: no kernel spatial dimensions.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 2, input_spatial_dimensions = [1], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [], output_batch_dimension = 0, output_feature_dimension = 2, output_spatial_dimensions = [1]>} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C18: a kernel dimension out of range.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 2, input_spatial_dimensions = [1], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 3, kernel_spatial_dimensions = [0], output_batch_dimension = 0, output_feature_dimension = 2, output_spatial_dimensions = [1]>} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C19: no output spatial dimensions.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 2, input_spatial_dimensions = [1], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [0], output_batch_dimension = 0, output_feature_dimension = 2, output_spatial_dimensions = []>} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C20: an output dimension out of range.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 2, input_spatial_dimensions = [1], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [0], output_batch_dimension = 0, output_feature_dimension = -1, output_spatial_dimensions = [1]>} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C21: no feature groups.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 0 : i64} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C22: no batch groups.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 0 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C23: both kinds of groups.
func.func @main(%a: tensor<2x4x2xf32>, %b: tensor<2x1x4xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 2 : i64, feature_group_count = 2 : i64} : (tensor<2x4x2xf32>, tensor<2x1x4xf32>) -> tensor<1x3x4xf32>
  return
}

// -----

// convolution C24: one precision.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGH>]} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C25: the result's shape.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x4x3xf32>
  return
}

// -----

// convolution C26: the result's rank.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x3xf32>
  return
}

// -----

// convolution C27: element types.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf64>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf32>, tensor<2x2x3xf64>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C28: only the input is quantized.
func.func @main(%a: tensor<1x4x2x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x2x3xf32>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x3xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

// convolution C29: the kernel's quantized dimension.
func.func @main(%a: tensor<1x4x2x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x2x3x!quant.uniform<i8:f32:1, {0.5, 0.5}>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x3x!quant.uniform<i8:f32:1, {0.5, 0.5}>>) -> tensor<1x3x3x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// convolution C30: the result's quantized dimension.
func.func @main(%a: tensor<1x4x2x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x2x3x!quant.uniform<i8:f32:2, {0.5, 0.5, 0.5}>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x3x!quant.uniform<i8:f32:2, {0.5, 0.5, 0.5}>>) -> tensor<1x3x3x!quant.uniform<i8:f32:1, {0.5, 0.5, 0.5}>>
  return
}

// -----

// convolution C31: storage types.
func.func @main(%a: tensor<1x4x2x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x2x3x!quant.uniform<i16:f32, 0.5>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x3x!quant.uniform<i16:f32, 0.5>>) -> tensor<1x3x3x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// convolution C32: expressed types.
func.func @main(%a: tensor<1x4x2x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x2x3x!quant.uniform<i8:f32, 0.5>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x3x3x!quant.uniform<i8:f16, 0.5>>
  return
}

// -----

// convolution C33: the result is quantized per axis, the kernel is not.
func.func @main(%a: tensor<1x4x2x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x2x3x!quant.uniform<i8:f32, 0.5>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x3x3x!quant.uniform<i8:f32:2, {0.5, 0.5, 0.5}>>
  return
}

// -----

// convolution C34: a float input of another type than the kernel expresses.
func.func @main(%a: tensor<1x4x2xf16>, %b: tensor<2x2x3x!quant.uniform<i8:f32, 0.5>>) {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf16>, tensor<2x2x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x3x3xf16>
  return
}

// -----

// dynamic_conv I3, C4: padding must be integers, a pair for each spatial dimension.
func.func @main(%a: tensor<1x4x2xf32>, %b: tensor<2x2x3xf32>, %p: tensor<2x2xf32>) {
  %0 = stablehlo.dynamic_conv(%a, %b, %p) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xf32>, tensor<2x2x3xf32>, tensor<2x2xf32>) -> tensor<1x?x3xf32>
  return
}
