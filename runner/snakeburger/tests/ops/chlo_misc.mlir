// chlo.broadcast_*: numpy rules, explicit dimensions, comparisons, selection, complex numbers.
func.func @main() {
  %a = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi32>
  %b = stablehlo.constant dense<[10, 20, 30]> : tensor<3xi32>
  %c = stablehlo.constant dense<[100, 200]> : tensor<2xi32>
  %w = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %0 = chlo.broadcast_add %a, %b : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %0, dense<[[11, 21, 31], [12, 22, 32]]> : tensor<2x3xi32>
  %1 = chlo.broadcast_subtract %w, %c {broadcast_dimensions = array<i64: 0>} : (tensor<2x3xi32>, tensor<2xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %1, dense<[[-99, -98, -97], [-196, -195, -194]]> : tensor<2x3xi32>
  %2 = chlo.broadcast_multiply %a, %b : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %2, dense<[[10, 20, 30], [20, 40, 60]]> : tensor<2x3xi32>
  %3 = chlo.broadcast_divide %b, %a : (tensor<3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %3, dense<[[10, 20, 30], [5, 10, 15]]> : tensor<2x3xi32>
  %4 = chlo.broadcast_maximum %w, %a : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %4, dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %5 = chlo.broadcast_minimum %w, %a : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %5, dense<[[1, 1, 1], [2, 2, 2]]> : tensor<2x3xi32>
  %6 = chlo.broadcast_power %w, %a : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %6, dense<[[1, 2, 3], [16, 25, 36]]> : tensor<2x3xi32>
  %7 = chlo.broadcast_remainder %w, %a : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %7, dense<[[0, 0, 0], [0, 1, 0]]> : tensor<2x3xi32>
  %8 = chlo.broadcast_shift_left %w, %a : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  %9 = chlo.broadcast_shift_right_arithmetic %8, %a : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  %10 = chlo.broadcast_shift_right_logical %8, %a : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  check.expect_eq %9, %w : tensor<2x3xi32>
  check.expect_eq %10, %w : tensor<2x3xi32>
  %11 = chlo.broadcast_and %w, %a : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %11, dense<[[1, 0, 1], [0, 0, 2]]> : tensor<2x3xi32>
  %12 = chlo.broadcast_or %w, %a : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  %13 = chlo.broadcast_xor %w, %a : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  %14 = stablehlo.add %11, %13 : tensor<2x3xi32>
  check.expect_eq %12, %14 : tensor<2x3xi32>
  %15 = chlo.broadcast_compare %w, %a {comparison_direction = #chlo<comparison_direction GT>} : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi1>
  check.expect_eq_const %15, dense<[[false, true, true], [true, true, true]]> : tensor<2x3xi1>
  %16 = chlo.broadcast_select %15, %w, %a : (tensor<2x3xi1>, tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %16, dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %f = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf64>
  %g = stablehlo.constant dense<1.0> : tensor<f64>
  %17 = chlo.broadcast_complex %f, %g : (tensor<2xf64>, tensor<f64>) -> tensor<2xcomplex<f64>>
  check.expect_eq_const %17, dense<[(1.0, 1.0), (2.0, 1.0)]> : tensor<2xcomplex<f64>>
  %18 = chlo.broadcast_atan2 %g, %f : (tensor<f64>, tensor<2xf64>) -> tensor<2xf64>
  check.expect_almost_eq_const %18, dense<[0.7853981633974483, 0.4636476090008061]> : tensor<2xf64>
  %19 = chlo.broadcast_next_after %f, %g : (tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
  check.expect_eq_const %19, dense<[1.0, 1.9999999999999998]> : tensor<2xf64>
  %20 = chlo.broadcast_polygamma %g, %f : (tensor<f64>, tensor<2xf64>) -> tensor<2xf64>
  check.expect_almost_eq_const %20, dense<[1.6449340668482264, 0.6449340668482264]> : tensor<2xf64>
  %h = stablehlo.constant dense<2.0> : tensor<f64>
  %21 = chlo.broadcast_zeta %h, %f : (tensor<f64>, tensor<2xf64>) -> tensor<2xf64>
  check.expect_almost_eq_const %21, dense<[1.6449340668482264, 0.6449340668482264]> : tensor<2xf64>
  return
}

// -----

// chlo.top_k: equal elements keep their order, a NaN is the largest; smallest on request.
func.func @main() {
  %x = stablehlo.constant dense<[[3.0, 0x7FC00000, 3.0, 5.0], [1.0, 2.0, 3.0, 4.0]]> : tensor<2x4xf32>
  %v, %i = chlo.top_k(%x, k = 3) : tensor<2x4xf32> -> (tensor<2x3xf32>, tensor<2x3xi32>)
  check.expect_eq_const %v, dense<[[0x7FC00000, 5.0, 3.0], [4.0, 3.0, 2.0]]> : tensor<2x3xf32>
  check.expect_eq_const %i, dense<[[1, 3, 0], [3, 2, 1]]> : tensor<2x3xi32>
  %u = stablehlo.constant dense<[200, 100, 250]> : tensor<3xui8>
  %w, %j = chlo.top_k(%u, k = 1) {largest = false} : tensor<3xui8> -> (tensor<1xui8>, tensor<1xi32>)
  check.expect_eq_const %w, dense<100> : tensor<1xui8>
  check.expect_eq_const %j, dense<1> : tensor<1xi32>
  return
}

// -----

// chlo.constant, chlo.constant_like, chlo.dynamic_reshape, chlo.minimum_broadcast_shapes.
func.func @main() {
  %0 = chlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %1 = "chlo.constant_like"(%0) {value = 2.5 : f32} : (tensor<4xi32>) -> tensor<4xf32>
  check.expect_eq_const %1, dense<2.5> : tensor<4xf32>
  %2 = stablehlo.constant dense<[2, -1]> : tensor<2xi64>
  %3 = chlo.dynamic_reshape %0, %2 : (tensor<4xi32>, tensor<2xi64>) -> tensor<?x?xi32>
  check.expect_eq_const %3, dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  return
}

// -----

// chlo.ragged_dot with a cut dimension of the left side: two groups of one and two rows.
func.func @main() {
  %lhs = stablehlo.constant dense<[[1, 2], [3, 4], [5, 6], [7, 8]]> : tensor<4x2xi32>
  %rhs = stablehlo.constant dense<[[[1], [1]], [[10], [1]]]> : tensor<2x2x1xi32>
  %sizes = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %0 = "chlo.ragged_dot"(%lhs, %rhs, %sizes) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>} : (tensor<4x2xi32>, tensor<2x2x1xi32>, tensor<2xi64>) -> tensor<4x1xi32>
  check.expect_eq_const %0, dense<[[3], [34], [56], [0]]> : tensor<4x1xi32>
  return
}

// -----

// chlo.ragged_dot with a cut contracted dimension: a result for each group.
func.func @main() {
  %lhs = stablehlo.constant dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32>
  %rhs = stablehlo.constant dense<[[1.0], [10.0], [100.0]]> : tensor<3x1xf32>
  %sizes = stablehlo.constant dense<[2, 1]> : tensor<2xi64>
  %0 = "chlo.ragged_dot"(%lhs, %rhs, %sizes) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [1]>} : (tensor<1x3xf32>, tensor<3x1xf32>, tensor<2xi64>) -> tensor<2x1x1xf32>
  check.expect_eq_const %0, dense<[[[21.0]], [[300.0]]]> : tensor<2x1x1xf32>
  return
}

// -----

// chlo.ragged_dot with a cut batch dimension: what is behind the last group is zero.
func.func @main() {
  %lhs = stablehlo.constant dense<[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]> : tensor<3x1x2xf32>
  %rhs = stablehlo.constant dense<1.0> : tensor<3x2x1xf32>
  %sizes = stablehlo.constant dense<[1, 1]> : tensor<2xi64>
  %0 = "chlo.ragged_dot"(%lhs, %rhs, %sizes) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0]>} : (tensor<3x1x2xf32>, tensor<3x2x1xf32>, tensor<2xi64>) -> tensor<3x1x1xf32>
  check.expect_eq_const %0, dense<[[[3.0]], [[7.0]], [[0.0]]]> : tensor<3x1x1xf32>
  return
}

// -----

// chlo.scan: running products of the columns, forwards and backwards.
func.func @main() {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>
  %one = stablehlo.constant dense<1> : tensor<2xi64>
  %0:2 = chlo.scan(%x) inits(%one) dimension=1 {
  ^bb0(%a: tensor<2xi64>, %c: tensor<2xi64>):
    %p = stablehlo.multiply %a, %c : tensor<2xi64>
    stablehlo.return %p, %p : tensor<2xi64>, tensor<2xi64>
  } : (tensor<2x3xi64>, tensor<2xi64>) -> (tensor<2x3xi64>, tensor<2xi64>)
  check.expect_eq_const %0#0, dense<[[1, 2, 6], [4, 20, 120]]> : tensor<2x3xi64>
  check.expect_eq_const %0#1, dense<[6, 120]> : tensor<2xi64>
  %1:2 = "chlo.scan"(%x, %one) <{dimension = 1 : i64, is_reverse = true, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%a: tensor<2xi64>, %c: tensor<2xi64>):
    %p = stablehlo.multiply %a, %c : tensor<2xi64>
    stablehlo.return %p, %p : tensor<2xi64>, tensor<2xi64>
  }) : (tensor<2x3xi64>, tensor<2xi64>) -> (tensor<2x3xi64>, tensor<2xi64>)
  check.expect_eq_const %1#0, dense<[[6, 6, 3], [120, 30, 6]]> : tensor<2x3xi64>
  return
}
