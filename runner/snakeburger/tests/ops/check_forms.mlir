// The forms of the check and interpreter dialects, and what they allow.
func.func @main() {
  %0 = stablehlo.constant dense<[1.0, -2.0, 0x7FC00000]> : tensor<3xf32>
  %1 = stablehlo.constant dense<[1.00005, -2.0, 0x7FC00001]> : tensor<3xf32>
  check.expect_almost_eq %0, %1 : tensor<3xf32>
  check.expect_almost_eq %0, %1, tolerance = 0.001 : tensor<3xf32>
  check.expect_almost_eq %0, %1, tolerance = 0.001 : f64 : tensor<3xf32>
  check.expect_almost_eq_const %0, dense<[1.1, -2.1, 0x7FC00000]> : tensor<3xf32>, tolerance = 1.500000e-01
  check.expect_almost_eq_const %0, dense<[1.0, -2.0, 0x7FC00000]> : tensor<3xf32>
  interpreter.print %0 : tensor<3xf32>
  %2 = interpreter.probe %0, probe_id = "here" : tensor<3xf32>
  check.expect_serialized_eq %0, probe_id = "here" : tensor<3xf32>
  "check.expect_serialized_eq"(%0) {probe_id = "here", iteration = 0 : ui32} : (tensor<3xf32>) -> ()
  return
}

// -----

// Units in the last place: 0x3F800001 is one step above one.
func.func @main() {
  %0 = stablehlo.constant dense<[0x3F800001, 0x7F800000, -0.0]> : tensor<3xf32>
  %1 = stablehlo.constant dense<[1.0, 0x7F800000, 0.0]> : tensor<3xf32>
  check.expect_close %0, %1, max_ulp_difference = 1 : tensor<3xf32>, tensor<3xf32>
  check.expect_close %0, %1, max_ulp_difference = 3, min_ulp_difference = 0 : tensor<3xf32>, tensor<3xf32>
  "check.expect_close"(%0, %1) : (tensor<3xf32>, tensor<3xf32>) -> ()
  stablehlo.custom_call @check.expect_close(%0, %1) {has_side_effect = true, max_ulp_difference = 1 : i64} : (tensor<3xf32>, tensor<3xf32>) -> ()
  %2 = stablehlo.custom_call @check.eq(%0, %1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<i1>
  return
}
