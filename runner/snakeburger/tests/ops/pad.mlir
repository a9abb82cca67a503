// pad: C1 to C4, all three kinds of padding.
func.func @all() {
  %x = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %v = stablehlo.constant dense<9> : tensor<i32>
  %y = stablehlo.pad %x, %v, low = [1, 0], high = [0, 1], interior = [0, 2] : (tensor<2x2xi32>, tensor<i32>) -> tensor<3x5xi32>
  check.expect_eq_const %y, dense<[[9, 9, 9, 9, 9], [1, 9, 9, 2, 9], [3, 9, 9, 4, 9]]> : tensor<3x5xi32>
  func.return
}

// -----

// pad: C4, negative edges cut into what the interior padding made.
func.func @negative() {
  %x = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf16>
  %v = stablehlo.constant dense<-1.0> : tensor<f16>
  %y = stablehlo.pad %x, %v, low = [-1], high = [-2], interior = [1] : (tensor<4xf16>, tensor<f16>) -> tensor<4xf16>
  check.expect_eq_const %y, dense<[-1.0, 2.0, -1.0, 3.0]> : tensor<4xf16>
  %z = stablehlo.pad %x, %v, low = [-6], high = [3], interior = [0] : (tensor<4xf16>, tensor<f16>) -> tensor<1xf16>
  check.expect_eq_const %z, dense<[-1.0]> : tensor<1xf16>
  %w = stablehlo.pad %x, %v, low = [2], high = [-5], interior = [0] : (tensor<4xf16>, tensor<f16>) -> tensor<1xf16>
  check.expect_eq_const %w, dense<[-1.0]> : tensor<1xf16>
  func.return
}

// -----

// pad: C4, an empty operand has nothing in between; booleans.
func.func @empty() {
  %x = stablehlo.constant dense<> : tensor<0xi1>
  %v = stablehlo.constant dense<true> : tensor<i1>
  %y = stablehlo.pad %x, %v, low = [1], high = [1], interior = [5] : (tensor<0xi1>, tensor<i1>) -> tensor<2xi1>
  check.expect_eq_const %y, dense<true> : tensor<2xi1>
  %s = stablehlo.constant dense<false> : tensor<i1>
  %t = stablehlo.pad %s, %v, low = [], high = [], interior = [] : (tensor<i1>, tensor<i1>) -> tensor<i1>
  check.expect_eq_const %t, dense<false> : tensor<i1>
  func.return
}

// -----

// dynamic_pad: C1 to C4 with amounts as values.
func.func @dynamic() {
  %x = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xui16>
  %v = stablehlo.constant dense<0> : tensor<ui16>
  %low = stablehlo.constant dense<[0, -1]> : tensor<2xi32>
  %high = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %interior = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
  %y = stablehlo.dynamic_pad %x, %v, %low, %high, %interior : (tensor<2x2xui16>, tensor<ui16>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<3x4xui16>
  check.expect_eq_const %y, dense<[[0, 2, 0, 0], [0, 4, 0, 0], [0, 0, 0, 0]]> : tensor<3x4xui16>
  func.return
}
