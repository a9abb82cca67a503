// dynamic_reshape C1: another element type.
func.func @f(%x: tensor<4xi32>, %s: tensor<1xi32>) -> tensor<?xi64> {
  %y = stablehlo.dynamic_reshape %x, %s : (tensor<4xi32>, tensor<1xi32>) -> tensor<?xi64>
  func.return %y : tensor<?xi64>
}

// -----

// dynamic_reshape C2: another size.
func.func @f(%x: tensor<4xi32>, %s: tensor<1xi32>) -> tensor<5xi32> {
  %y = stablehlo.dynamic_reshape %x, %s : (tensor<4xi32>, tensor<1xi32>) -> tensor<5xi32>
  func.return %y : tensor<5xi32>
}

// -----

// dynamic_reshape C3: the quantized dimension is torn apart.
func.func @f(%x: tensor<2x3x!quant.uniform<i8:f32:0, {0.1, 0.2}>>, %s: tensor<2xi64>) -> tensor<3x2x!quant.uniform<i8:f32:1, {0.1, 0.2}>> {
  %y = stablehlo.dynamic_reshape %x, %s : (tensor<2x3x!quant.uniform<i8:f32:0, {0.1, 0.2}>>, tensor<2xi64>) -> tensor<3x2x!quant.uniform<i8:f32:1, {0.1, 0.2}>>
  func.return %y : tensor<3x2x!quant.uniform<i8:f32:1, {0.1, 0.2}>>
}

// -----

// dynamic_reshape C4: a shape of another length.
func.func @f(%x: tensor<4xi32>, %s: tensor<2xi32>) -> tensor<?xi32> {
  %y = stablehlo.dynamic_reshape %x, %s : (tensor<4xi32>, tensor<2xi32>) -> tensor<?xi32>
  func.return %y : tensor<?xi32>
}

// -----

// dynamic_broadcast_in_dim C2, I2: a list of the wrong length, a shape of floats.
func.func @f(%x: tensor<4xi32>, %s: tensor<2xf32>) -> tensor<?x4xi32> {
  %y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 1] : (tensor<4xi32>, tensor<2xf32>) -> tensor<?x4xi32>
  func.return %y : tensor<?x4xi32>
}

// -----

// dynamic_broadcast_in_dim C3, C4: a dimension that is none, another twice.
func.func @f(%x: tensor<4x1x1xi32>, %s: tensor<2xi32>) -> tensor<?x4xi32> {
  %y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [2, 1, 1] : (tensor<4x1x1xi32>, tensor<2xi32>) -> tensor<?x4xi32>
  func.return %y : tensor<?x4xi32>
}

// -----

// dynamic_broadcast_in_dim C5, C7: sizes that do not fit, a shape of the wrong length.
func.func @f(%x: tensor<4xi32>, %s: tensor<3xi32>) -> tensor<?x5xi32> {
  %y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1] : (tensor<4xi32>, tensor<3xi32>) -> tensor<?x5xi32>
  func.return %y : tensor<?x5xi32>
}

// -----

// dynamic_broadcast_in_dim C8, C9, C10: what is known contradicts itself or names no dimension.
func.func @f(%x: tensor<4xi32>, %s: tensor<2xi32>) -> tensor<?x4xi32> {
  %y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1] {known_expanding_dimensions = array<i64: 0, 1>, known_nonexpanding_dimensions = array<i64: 0, -1>} : (tensor<4xi32>, tensor<2xi32>) -> tensor<?x4xi32>
  func.return %y : tensor<?x4xi32>
}

// -----

// broadcast: another shape, a negative size.
func.func @f(%x: tensor<4xi32>) -> tensor<2x4xi32> {
  %y = stablehlo.broadcast %x, sizes = [-3] : (tensor<4xi32>) -> tensor<2x4xi32>
  func.return %y : tensor<2x4xi32>
}

// -----

// dynamic_iota C1: no such dimension.
func.func @f(%s: tensor<1xi32>) -> tensor<?xi32> {
  %y = stablehlo.dynamic_iota %s, dim = 1 : (tensor<1xi32>) -> tensor<?xi32>
  func.return %y : tensor<?xi32>
}

// -----

// dynamic_iota C2: a shape of another length; the result holds booleans.
func.func @f(%s: tensor<2xi32>) -> tensor<?xi1> {
  %y = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi32>) -> tensor<?xi1>
  func.return %y : tensor<?xi1>
}

// -----

// get_dimension_size C1: no such dimension.
func.func @f(%x: tensor<2xi32>) -> tensor<i32> {
  %y = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2xi32>) -> tensor<i32>
  func.return %y : tensor<i32>
}

// -----

// get_dimension_size: the result is of type i32.
func.func @f(%x: tensor<2xi32>) -> tensor<i64> {
  %y = stablehlo.get_dimension_size %x, dim = 0 : (tensor<2xi32>) -> tensor<i64>
  func.return %y : tensor<i64>
}

// -----

// set_dimension_size: a size that is no i32 scalar, a dimension that is none.
func.func @f(%x: tensor<2xi32>, %n: tensor<1xi64>) -> tensor<?xi32> {
  %y = stablehlo.set_dimension_size %x, %n, dim = 3 : (tensor<2xi32>, tensor<1xi64>) -> tensor<?xi32>
  func.return %y : tensor<?xi32>
}

// -----

// reshape: a size that turns out not to fit when the program runs.
func.func @main() {
  %shape = stablehlo.constant dense<4> : tensor<1xi64>
  %0 = stablehlo.constant dense<1> : tensor<4xi32>
  %1 = stablehlo.dynamic_reshape %0, %shape : (tensor<4xi32>, tensor<1xi64>) -> tensor<?xi32>
  %2 = stablehlo.reshape %1 : (tensor<?xi32>) -> tensor<3xi32>
  func.return
}
