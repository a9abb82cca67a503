// concatenate C1: different element types.
func.func @f(%x: tensor<2xi32>, %y: tensor<2xi64>) -> tensor<4xi32> {
  %z = stablehlo.concatenate %x, %y, dim = 0 : (tensor<2xi32>, tensor<2xi64>) -> tensor<4xi32>
  func.return %z : tensor<4xi32>
}

// -----

// concatenate C2: shapes that differ elsewhere.
func.func @f(%x: tensor<2x3xi32>, %y: tensor<2x4xi32>) -> tensor<4x3xi32> {
  %z = stablehlo.concatenate %x, %y, dim = 0 : (tensor<2x3xi32>, tensor<2x4xi32>) -> tensor<4x3xi32>
  func.return %z : tensor<4x3xi32>
}

// -----

// concatenate C3: nothing to join.
func.func @f() -> tensor<0xi32> {
  %z = "stablehlo.concatenate"() {dimension = 0 : i64} : () -> tensor<0xi32>
  func.return %z : tensor<0xi32>
}

// -----

// concatenate C4: no such dimension.
func.func @f(%x: tensor<2xi32>) -> tensor<2xi32> {
  %z = stablehlo.concatenate %x, dim = -1 : (tensor<2xi32>) -> tensor<2xi32>
  func.return %z : tensor<2xi32>
}

// -----

// concatenate C5: another element type.
func.func @f(%x: tensor<2xi32>) -> tensor<2xui32> {
  %z = stablehlo.concatenate %x, dim = 0 : (tensor<2xi32>) -> tensor<2xui32>
  func.return %z : tensor<2xui32>
}

// -----

// concatenate C6: sizes that do not add up.
func.func @f(%x: tensor<2xi32>) -> tensor<5xi32> {
  %z = stablehlo.concatenate %x, %x, dim = 0 : (tensor<2xi32>, tensor<2xi32>) -> tensor<5xi32>
  func.return %z : tensor<5xi32>
}

// -----

// reverse C1: another shape.
func.func @f(%x: tensor<2xi32>) -> tensor<3xi32> {
  %z = "stablehlo.reverse"(%x) {dimensions = array<i64: 0>} : (tensor<2xi32>) -> tensor<3xi32>
  func.return %z : tensor<3xi32>
}

// -----

// reverse C2: a dimension twice.
func.func @f(%x: tensor<2xi32>) -> tensor<2xi32> {
  %z = stablehlo.reverse %x, dims = [0, 0] : tensor<2xi32>
  func.return %z : tensor<2xi32>
}

// -----

// reverse C3: no such dimension.
func.func @f(%x: tensor<2xi32>) -> tensor<2xi32> {
  %z = stablehlo.reverse %x, dims = [1] : tensor<2xi32>
  func.return %z : tensor<2xi32>
}
