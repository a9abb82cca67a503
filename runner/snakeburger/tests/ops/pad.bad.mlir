// pad C1, I2: a padding value of another type, and no scalar.
func.func @f(%x: tensor<2xi32>, %v: tensor<1xi64>) -> tensor<4xi32> {
  %y = stablehlo.pad %x, %v, low = [1], high = [1], interior = [0] : (tensor<2xi32>, tensor<1xi64>) -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}

// -----

// pad C1: a result of another element type.
func.func @f(%x: tensor<2xi32>, %v: tensor<i32>) -> tensor<4xi64> {
  %y = stablehlo.pad %x, %v, low = [1], high = [1], interior = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<4xi64>
  func.return %y : tensor<4xi64>
}

// -----

// pad C2: lists of the wrong length.
func.func @f(%x: tensor<2xi32>, %v: tensor<i32>) -> tensor<4xi32> {
  %y = stablehlo.pad %x, %v, low = [1, 1], high = [], interior = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}

// -----

// pad C3: a negative interior.
func.func @f(%x: tensor<2xi32>, %v: tensor<i32>) -> tensor<4xi32> {
  %y = stablehlo.pad %x, %v, low = [1], high = [1], interior = [-1] : (tensor<2xi32>, tensor<i32>) -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}

// -----

// pad C4: another shape.
func.func @f(%x: tensor<2xi32>, %v: tensor<i32>) -> tensor<4xi32> {
  %y = stablehlo.pad %x, %v, low = [1], high = [1], interior = [1] : (tensor<2xi32>, tensor<i32>) -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}

// -----

// pad C4: more is cut away than there is.
func.func @f(%x: tensor<2xi32>, %v: tensor<i32>) -> tensor<0xi32> {
  %y = stablehlo.pad %x, %v, low = [-2], high = [-1], interior = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<0xi32>
  func.return %y : tensor<0xi32>
}

// -----

// dynamic_pad C1: operand and padding value differ.
func.func @f(%x: tensor<2xi32>, %v: tensor<f32>, %n: tensor<1xi32>) -> tensor<?xi32> {
  %y = stablehlo.dynamic_pad %x, %v, %n, %n, %n : (tensor<2xi32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xi32>
  func.return %y : tensor<?xi32>
}

// -----

// dynamic_pad I3, I4, C2: amounts that are floats, a scalar, or too many.
func.func @f(%x: tensor<2xi32>, %v: tensor<i32>, %a: tensor<1xf32>, %b: tensor<i32>, %c: tensor<2xi32>) -> tensor<?xi32> {
  %y = stablehlo.dynamic_pad %x, %v, %a, %b, %c : (tensor<2xi32>, tensor<i32>, tensor<1xf32>, tensor<i32>, tensor<2xi32>) -> tensor<?xi32>
  func.return %y : tensor<?xi32>
}

// -----

// dynamic_pad C4: the rank changes.
func.func @f(%x: tensor<2xi32>, %v: tensor<i32>, %n: tensor<1xi32>) -> tensor<?x?xi32> {
  %y = stablehlo.dynamic_pad %x, %v, %n, %n, %n : (tensor<2xi32>, tensor<i32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?x?xi32>
  func.return %y : tensor<?x?xi32>
}
