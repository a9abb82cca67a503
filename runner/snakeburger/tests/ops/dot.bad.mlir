// dot_general C1: numbers of batching dimensions differ.
func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [], contracting_dims = [1] x [1] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

// dot_general C2: numbers of contracting dimensions differ.
func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1, 0] x [1] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

// dot_general C3: a dimension of lhs is used twice.
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [0] x [1] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

// dot_general C4: a dimension of rhs is used twice.
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [0, 1] x [1, 1] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
  return
}

// -----

// dot_general C5, C6: dimensions of lhs out of range.
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [2] x [0], contracting_dims = [-1] x [1] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

// dot_general C7, C8: dimensions of rhs out of range.
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [5], contracting_dims = [1] x [9] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2x2xf32>
  return
}

// -----

// dot_general C9: batching sizes differ.
func.func @main(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2xf32>
  return
}

// -----

// dot_general C10: contracting sizes differ.
func.func @main(%a: tensor<2x3xf32>, %b: tensor<4x2xf32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

// dot_general C11: one precision for two operands.
func.func @main(%a: tensor<2xf32>) {
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0], precision = [HIGH] : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  return
}

// -----

// dot_general C12: the result's shape.
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<4x2xf32>
  return
}

// -----

// dot_general C13: element types differ.
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf16>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<2xf32>, tensor<2xf16>) -> tensor<f32>
  return
}

// -----

// dot_general C14: lhs is quantized, the result is not.
func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<f32>
  return
}

// -----

// dot_general C15: rhs has a zero point.
func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x!quant.uniform<i8:f32, 0.5:1>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// dot_general C16: rhs is contracted along its quantized dimension.
func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x!quant.uniform<i8:f32:0, {0.5, 1.0}>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32:0, {0.5, 1.0}>>) -> tensor<!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// dot_general C17: storage types differ.
func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x!quant.uniform<i16:f32, 0.5>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i16:f32, 0.5>>) -> tensor<!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// dot_general C18: the result expresses another type.
func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<!quant.uniform<i8:f16, 0.5>>
  return
}

// -----

// dot_general C19: rhs is quantized per tensor, the result per axis.
func.func @main(%a: tensor<1x2x!quant.uniform<i8:f32, 0.5>>) {
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1] : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x!quant.uniform<i8:f32:1, {0.5}>>
  return
}

// -----

// dot_general C20: a float lhs of another type than rhs expresses.
func.func @main(%a: tensor<2xf16>, %b: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<2xf16>, tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<f16>
  return
}

// -----

// dot_general C21-C24: an algorithm with a precision, and counts that are not positive.
func.func @main(%a: tensor<2xf32>) {
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0], precision = [HIGH, DEFAULT], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 0, rhs_component_count = -1, num_primitive_operations = 0, allow_imprecise_accumulation = false> : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  return
}

// -----

// dot: inner sizes differ.
func.func @main(%a: tensor<2x3xf32>) {
  %0 = stablehlo.dot %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// einsum: a label that no operand has.
func.func @main(%a: tensor<2x3xf32>) {
  %0 = stablehlo.einsum %a, %a, config = "ij,ij->ik" : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// unary_einsum: a formula of another rank.
func.func @main(%a: tensor<2x3xf32>) {
  %0 = stablehlo.unary_einsum %a, config = "i->i" : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}
