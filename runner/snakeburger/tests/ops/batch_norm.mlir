// batch_norm_inference: C1-C7: two features along the last dimension.
func.func @inference() {
  %x = stablehlo.constant dense<[[1.0, 10.0], [3.0, 30.0]]> : tensor<2x2xf64>
  %scale = stablehlo.constant dense<[2.0, 1.0]> : tensor<2xf64>
  %offset = stablehlo.constant dense<[0.5, -1.0]> : tensor<2xf64>
  %mean = stablehlo.constant dense<[2.0, 20.0]> : tensor<2xf64>
  %variance = stablehlo.constant dense<[3.0, 24.0]> : tensor<2xf64>
  %r = "stablehlo.batch_norm_inference"(%x, %scale, %offset, %mean, %variance) <{epsilon = 1.0 : f32, feature_index = 1 : i64}> : (tensor<2x2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) -> tensor<2x2xf64>
  check.expect_eq_const %r, dense<[[-0.5, -3.0], [1.5, 1.0]]> : tensor<2x2xf64>
  func.return
}

// -----

// batch_norm_training: C1-C7: statistics over the other dimensions, features first.
func.func @training() {
  %x = stablehlo.constant dense<[[1.0, 3.0, 5.0, 7.0], [0.0, 0.0, 4.0, 4.0]]> : tensor<2x4xf32>
  %scale = stablehlo.constant dense<[3.0, 1.0]> : tensor<2xf32>
  %offset = stablehlo.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %r:3 = "stablehlo.batch_norm_training"(%x, %scale, %offset) <{epsilon = 4.0 : f32, feature_index = 0 : i64}> : (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  check.expect_almost_eq_const %r#0, dense<[[-3.0, -1.0, 1.0, 3.0], [0.29289323, 0.29289323, 1.7071068, 1.7071068]]> : tensor<2x4xf32>
  check.expect_eq_const %r#1, dense<[4.0, 2.0]> : tensor<2xf32>
  check.expect_eq_const %r#2, dense<[5.0, 4.0]> : tensor<2xf32>
  func.return
}

// -----

// batch_norm_grad: C1-C5: one feature; the numbers follow from the formula by hand.
func.func @gradient() {
  %x = stablehlo.constant dense<[[1.0], [3.0]]> : tensor<2x1xf64>
  %scale = stablehlo.constant dense<[2.0]> : tensor<1xf64>
  %mean = stablehlo.constant dense<[2.0]> : tensor<1xf64>
  %variance = stablehlo.constant dense<[3.0]> : tensor<1xf64>
  %grad = stablehlo.constant dense<[[1.0], [2.0]]> : tensor<2x1xf64>
  %r:3 = "stablehlo.batch_norm_grad"(%x, %scale, %mean, %variance, %grad) <{epsilon = 1.0 : f32, feature_index = 1 : i64}> : (tensor<2x1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<2x1xf64>) -> (tensor<2x1xf64>, tensor<1xf64>, tensor<1xf64>)
  // centered -1, 1; spread 4; sum 3; products 1: 0.5 * (2 * grad - 3 - centered / 4).
  check.expect_eq_const %r#0, dense<[[-0.375], [0.375]]> : tensor<2x1xf64>
  check.expect_eq_const %r#1, dense<[0.5]> : tensor<1xf64>
  check.expect_eq_const %r#2, dense<[3.0]> : tensor<1xf64>
  func.return
}
