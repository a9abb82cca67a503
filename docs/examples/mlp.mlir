// A small perceptron: one hidden layer, then a softmax. `main` states what it expects.
func.func private @softmax(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %max = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %wide = stablehlo.broadcast_in_dim %max, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  %shifted = stablehlo.subtract %x, %wide : tensor<2x3xf32>
  %exp = stablehlo.exponential %shifted : tensor<2x3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%exp init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %norm = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  %y = stablehlo.divide %exp, %norm : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

func.func public @main() -> tensor<2x3xf32> {
  %x = stablehlo.constant dense<[[1.0, -2.0], [0.5, 3.0]]> : tensor<2x2xf32>
  %w1 = stablehlo.constant dense<[[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]]> : tensor<2x3xf32>
  %w2 = stablehlo.constant dense<[[1.0, 0.0, -1.0], [0.5, 0.5, 0.5], [-1.0, 2.0, 0.0]]> : tensor<3x3xf32>
  %0 = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.tanh %0 : tensor<2x3xf32>
  %2 = stablehlo.dot_general %1, %w2, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %3 = call @softmax(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %ones = stablehlo.constant dense<1.0> : tensor<2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  check.expect_almost_eq %4, %ones {tolerance = 1.0e-6 : f64} : tensor<2xf32>, tensor<2xf32>
  return %3 : tensor<2x3xf32>
}
