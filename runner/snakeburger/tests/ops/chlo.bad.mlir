// chlo.lgamma: integers are not allowed (I1).
func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
  %0 = chlo.lgamma %x : tensor<2xi32> -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// -----

// chlo.broadcast_add: sizes 2 and 3 do not broadcast.
func.func @main(%x: tensor<2xi32>, %y: tensor<3xi32>) -> tensor<3xi32> {
  %0 = chlo.broadcast_add %x, %y : (tensor<2xi32>, tensor<3xi32>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}

// -----

// chlo.broadcast_add: broadcast_dimensions for another rank.
func.func @main(%x: tensor<2xi32>, %y: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %0 = chlo.broadcast_add %x, %y {broadcast_dimensions = array<i64: 0, 1>} : (tensor<2xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
}

// -----

// chlo.top_k: k beyond the last dimension (I2).
func.func @main(%x: tensor<2xi32>) -> tensor<3xi32> {
  %v, %i = chlo.top_k(%x, k = 3) : tensor<2xi32> -> (tensor<3xi32>, tensor<3xi32>)
  return %v : tensor<3xi32>
}

// -----

// chlo.ragged_dot: a group dimension although the cut dimension is contracted.
func.func @main(%x: tensor<1x3xf32>, %y: tensor<3x1xf32>, %s: tensor<2xi64>) -> tensor<2x1x1xf32> {
  %0 = "chlo.ragged_dot"(%x, %y, %s) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [1], rhs_group_dimensions = [1]>} : (tensor<1x3xf32>, tensor<3x1xf32>, tensor<2xi64>) -> tensor<2x1x1xf32>
  return %0 : tensor<2x1x1xf32>
}

// -----

// chlo.constant_like: the value has another type than the result.
func.func @main(%x: tensor<2xi32>) -> tensor<2xf32> {
  %0 = "chlo.constant_like"(%x) {value = 1 : i32} : (tensor<2xi32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
