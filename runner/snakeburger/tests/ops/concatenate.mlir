// concatenate: C1 to C6 along the inner dimension.
func.func @inner() {
  %a = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi64>
  %b = stablehlo.constant dense<[[3, 4], [5, 6]]> : tensor<2x2xi64>
  %e = stablehlo.constant dense<> : tensor<2x0xi64>
  %y = stablehlo.concatenate %a, %e, %b, %a, dim = 1 : (tensor<2x1xi64>, tensor<2x0xi64>, tensor<2x2xi64>, tensor<2x1xi64>) -> tensor<2x4xi64>
  check.expect_eq_const %y, dense<[[1, 3, 4, 1], [2, 5, 6, 2]]> : tensor<2x4xi64>
  func.return
}

// -----

// concatenate: C3, one input is enough; C4, the outer dimension.
func.func @outer() {
  %a = stablehlo.constant dense<[(1.0, -1.0)]> : tensor<1xcomplex<f32>>
  %b = stablehlo.constant dense<[(2.0, 0.5), (3.0, 0.0)]> : tensor<2xcomplex<f32>>
  %one = stablehlo.concatenate %a, dim = 0 : (tensor<1xcomplex<f32>>) -> tensor<1xcomplex<f32>>
  check.expect_eq_const %one, dense<[(1.0, -1.0)]> : tensor<1xcomplex<f32>>
  %y = stablehlo.concatenate %b, %a, dim = 0 : (tensor<2xcomplex<f32>>, tensor<1xcomplex<f32>>) -> tensor<3xcomplex<f32>>
  check.expect_eq_const %y, dense<[(2.0, 0.5), (3.0, 0.0), (1.0, -1.0)]> : tensor<3xcomplex<f32>>
  func.return
}

// -----

// concatenate: C2, C6 with dimensions that are known at run time only.
func.func @dynamic() {
  %n = stablehlo.constant dense<2> : tensor<1xi32>
  %a = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %y = stablehlo.concatenate %a, %a, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  %m = stablehlo.constant dense<4> : tensor<1xi32>
  %z = stablehlo.dynamic_reshape %y, %m : (tensor<?xf32>, tensor<1xi32>) -> tensor<4xf32>
  check.expect_eq_const %z, dense<[0.0, 1.0, 0.0, 1.0]> : tensor<4xf32>
  func.return
}

// -----

// reverse: C1 to C3, one dimension of two, both, none.
func.func @reverse() {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %a = stablehlo.reverse %x, dims = [1] : tensor<2x3xi8>
  check.expect_eq_const %a, dense<[[3, 2, 1], [6, 5, 4]]> : tensor<2x3xi8>
  %b = stablehlo.reverse %x, dims = [1, 0] : tensor<2x3xi8>
  check.expect_eq_const %b, dense<[[6, 5, 4], [3, 2, 1]]> : tensor<2x3xi8>
  %c = stablehlo.reverse %x, dims = [] : tensor<2x3xi8>
  check.expect_eq_const %c, dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %e = stablehlo.constant dense<> : tensor<0x2xf32>
  %f = stablehlo.reverse %e, dims = [0] : tensor<0x2xf32>
  check.expect_eq_const %f, dense<> : tensor<0x2xf32>
  func.return
}
