// slice C1: the element type changes.
func.func @f(%x: tensor<4xi32>) -> tensor<2xf32> {
  %y = stablehlo.slice %x [0:2] : (tensor<4xi32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// -----

// slice C2: lists of different lengths.
func.func @f(%x: tensor<4xi32>) -> tensor<2xi32> {
  %y = "stablehlo.slice"(%x) <{start_indices = array<i64: 0>, limit_indices = array<i64: 2, 2>, strides = array<i64>}> : (tensor<4xi32>) -> tensor<2xi32>
  func.return %y : tensor<2xi32>
}

// -----

// slice C3: a limit behind the end, a start behind the limit, a negative start.
func.func @f(%x: tensor<4x4x4xi32>) -> tensor<5x1x2xi32> {
  %y = stablehlo.slice %x [0:5, 3:2, -1:1] : (tensor<4x4x4xi32>) -> tensor<5x1x2xi32>
  func.return %y : tensor<5x1x2xi32>
}

// -----

// slice C4: a stride that is not positive.
func.func @f(%x: tensor<4xi32>) -> tensor<2xi32> {
  %y = stablehlo.slice %x [0:2:0] : (tensor<4xi32>) -> tensor<2xi32>
  func.return %y : tensor<2xi32>
}

// -----

// slice C5: another size.
func.func @f(%x: tensor<4xi32>) -> tensor<3xi32> {
  %y = stablehlo.slice %x [0:4:2] : (tensor<4xi32>) -> tensor<3xi32>
  func.return %y : tensor<3xi32>
}

// -----

// slice I1: quantized per axis.
func.func @f(%x: tensor<2x!quant.uniform<i8:f32:0, {0.1, 0.2}>>) -> tensor<2x!quant.uniform<i8:f32:0, {0.1, 0.2}>> {
  %y = stablehlo.slice %x [0:2] : (tensor<2x!quant.uniform<i8:f32:0, {0.1, 0.2}>>) -> tensor<2x!quant.uniform<i8:f32:0, {0.1, 0.2}>>
  func.return %y : tensor<2x!quant.uniform<i8:f32:0, {0.1, 0.2}>>
}

// -----

// dynamic_slice C1: the element type changes.
func.func @f(%x: tensor<4xi32>, %i: tensor<i32>) -> tensor<2xi64> {
  %y = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<4xi32>, tensor<i32>) -> tensor<2xi64>
  func.return %y : tensor<2xi64>
}

// -----

// dynamic_slice C2: one start for two dimensions.
func.func @f(%x: tensor<4x4xi32>, %i: tensor<i32>) -> tensor<2x2xi32> {
  %y = stablehlo.dynamic_slice %x, %i, sizes = [2, 2] : (tensor<4x4xi32>, tensor<i32>) -> tensor<2x2xi32>
  func.return %y : tensor<2x2xi32>
}

// -----

// dynamic_slice I2, C3: starts of different types, one of them no scalar.
func.func @f(%x: tensor<4x4xi32>, %i: tensor<i32>, %j: tensor<1xi64>) -> tensor<2x2xi32> {
  %y = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 2] : (tensor<4x4xi32>, tensor<i32>, tensor<1xi64>) -> tensor<2x2xi32>
  func.return %y : tensor<2x2xi32>
}

// -----

// dynamic_slice C4: larger than the operand.
func.func @f(%x: tensor<4xi32>, %i: tensor<i32>) -> tensor<5xi32> {
  %y = stablehlo.dynamic_slice %x, %i, sizes = [5] : (tensor<4xi32>, tensor<i32>) -> tensor<5xi32>
  func.return %y : tensor<5xi32>
}

// -----

// dynamic_slice C5: another shape than the sizes.
func.func @f(%x: tensor<4xi32>, %i: tensor<i32>) -> tensor<3xi32> {
  %y = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<4xi32>, tensor<i32>) -> tensor<3xi32>
  func.return %y : tensor<3xi32>
}

// -----

// dynamic_update_slice C1: the result differs from the operand.
func.func @f(%x: tensor<4xi32>, %u: tensor<2xi32>, %i: tensor<i32>) -> tensor<5xi32> {
  %y = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<4xi32>, tensor<2xi32>, tensor<i32>) -> tensor<5xi32>
  func.return %y : tensor<5xi32>
}

// -----

// dynamic_update_slice C2, C3: an update of another element type and rank.
func.func @f(%x: tensor<4xi32>, %u: tensor<2x1xi64>, %i: tensor<i32>) -> tensor<4xi32> {
  %y = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<4xi32>, tensor<2x1xi64>, tensor<i32>) -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}

// -----

// dynamic_update_slice C4, C5: three starts for two dimensions, not of one type.
func.func @f(%x: tensor<4x4xi32>, %u: tensor<2x2xi32>, %i: tensor<i32>, %j: tensor<i8>) -> tensor<4x4xi32> {
  %y = stablehlo.dynamic_update_slice %x, %u, %i, %j, %i : (tensor<4x4xi32>, tensor<2x2xi32>, tensor<i32>, tensor<i8>, tensor<i32>) -> tensor<4x4xi32>
  func.return %y : tensor<4x4xi32>
}

// -----

// dynamic_update_slice C6: an update larger than the operand.
func.func @f(%x: tensor<4xi32>, %u: tensor<5xi32>, %i: tensor<i32>) -> tensor<4xi32> {
  %y = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<4xi32>, tensor<5xi32>, tensor<i32>) -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}

// -----

// real_dynamic_slice: lists that do not fit the operand.
func.func @f(%x: tensor<4xi32>, %i: tensor<2xi32>, %s: tensor<f32>) -> tensor<?x?xi32> {
  %y = stablehlo.real_dynamic_slice %x, %i, %i, %s : (tensor<4xi32>, tensor<2xi32>, tensor<2xi32>, tensor<f32>) -> tensor<?x?xi32>
  func.return %y : tensor<?x?xi32>
}
