// dynamic_reshape: C1, C2, C4.
func.func @reshape() {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %s = stablehlo.constant dense<[3, 2]> : tensor<2xui8>
  %y = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xi32>, tensor<2xui8>) -> tensor<3x2xi32>
  check.expect_eq_const %y, dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>
  func.return
}

// -----

// dynamic_reshape: C3, the quantized dimension moves along.
func.func @reshape_per_axis(%x: tensor<2x3x!quant.uniform<i8:f32:0, {0.1, 0.2}>>, %s: tensor<3xi64>) -> tensor<1x2x3x!quant.uniform<i8:f32:1, {0.1, 0.2}>> {
  %y = stablehlo.dynamic_reshape %x, %s : (tensor<2x3x!quant.uniform<i8:f32:0, {0.1, 0.2}>>, tensor<3xi64>) -> tensor<1x2x3x!quant.uniform<i8:f32:1, {0.1, 0.2}>>
  func.return %y : tensor<1x2x3x!quant.uniform<i8:f32:1, {0.1, 0.2}>>
}

// -----

// dynamic_broadcast_in_dim: C2 to C5, C7 to C10.
func.func @broadcast() {
  %x = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi16>
  %s = stablehlo.constant dense<[3, 2]> : tensor<2xindex>
  %y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 0] {known_expanding_dimensions = array<i64: 1>, known_nonexpanding_dimensions = array<i64: 0>} : (tensor<2x1xi16>, tensor<2xindex>) -> tensor<3x2xi16>
  check.expect_eq_const %y, dense<[[1, 2], [1, 2], [1, 2]]> : tensor<3x2xi16>
  %c = stablehlo.constant dense<7.0> : tensor<f32>
  %z = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [] : (tensor<f32>, tensor<2xindex>) -> tensor<3x2xf32>
  check.expect_eq_const %z, dense<7.0> : tensor<3x2xf32>
  func.return
}

// -----

// dynamic_broadcast_in_dim: C5 at run time, an unknown dimension of size one is repeated.
func.func @broadcast_unknown() {
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %x = stablehlo.dynamic_iota %one, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
  %y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1] : (tensor<?xi32>, tensor<2xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %y, dense<0> : tensor<2x3xi32>
  func.return
}

// -----

// broadcast: new leading dimensions.
func.func @leading() {
  %x = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %y = stablehlo.broadcast %x, sizes = [3, 1] : (tensor<2xi32>) -> tensor<3x1x2xi32>
  check.expect_eq_const %y, dense<[[[1, 2]], [[1, 2]], [[1, 2]]]> : tensor<3x1x2xi32>
  func.return
}

// -----

// dynamic_iota: C1, C2 for integers, floats and complex numbers.
func.func @iota() {
  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %a = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<2x3xui8>
  check.expect_eq_const %a, dense<[[0, 1, 2], [0, 1, 2]]> : tensor<2x3xui8>
  %b = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi64>) -> tensor<2x3xbf16>
  check.expect_eq_const %b, dense<[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]> : tensor<2x3xbf16>
  %c = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<2x3xcomplex<f32>>
  check.expect_eq_const %c, dense<[[(0.0, 0.0), (1.0, 0.0), (2.0, 0.0)], [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0)]]> : tensor<2x3xcomplex<f32>>
  func.return
}

// -----

// get_dimension_size: C1; set_dimension_size makes a dimension shorter or longer.
func.func @sizes() {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %n = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x3xi32>) -> tensor<i32>
  check.expect_eq_const %n, dense<3> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %y = stablehlo.set_dimension_size %x, %two, dim = 1 : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x?xi32, #stablehlo.bounds<?, 3>>
  %m = stablehlo.get_dimension_size %y, dim = 1 : (tensor<2x?xi32, #stablehlo.bounds<?, 3>>) -> tensor<i32>
  check.expect_eq_const %m, dense<2> : tensor<i32>
  %s = stablehlo.constant dense<[4]> : tensor<1xi32>
  %flat = stablehlo.dynamic_reshape %y, %s : (tensor<2x?xi32, #stablehlo.bounds<?, 3>>, tensor<1xi32>) -> tensor<4xi32>
  check.expect_eq_const %flat, dense<[1, 2, 4, 5]> : tensor<4xi32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %back = stablehlo.set_dimension_size %y, %three, dim = 1 : (tensor<2x?xi32, #stablehlo.bounds<?, 3>>, tensor<i32>) -> tensor<2x3xi32>
  %known = stablehlo.slice %back [0:2, 0:2] : (tensor<2x3xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %known, dense<[[1, 2], [4, 5]]> : tensor<2x2xi32>
  func.return
}
