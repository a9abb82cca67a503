// dot_general C1-C12: two batching dimensions in another order on each side, integers.
func.func @main() {
  %lhs = stablehlo.constant dense<[[[1, 2, 3]], [[4, 5, 6]]]> : tensor<2x1x3xi32>
  %rhs = stablehlo.constant dense<[[[1, 0], [2, 1], [3, 2]]]> : tensor<1x3x2xi32>
  %0 = stablehlo.dot_general %lhs, %rhs, batching_dims = [0, 1] x [2, 0], contracting_dims = [2] x [1] : (tensor<2x1x3xi32>, tensor<1x3x2xi32>) -> tensor<2x1xi32>
  check.expect_eq_const %0, dense<[[14], [17]]> : tensor<2x1xi32>
  return
}

// -----

// dot_general C2, C12: nothing contracted is the outer product; a wider result type.
func.func @main() {
  %lhs = stablehlo.constant dense<[100, -100]> : tensor<2xi8>
  %rhs = stablehlo.constant dense<[2, 3]> : tensor<2xi8>
  %0 = stablehlo.dot_general %lhs, %rhs, contracting_dims = [] x [] : (tensor<2xi8>, tensor<2xi8>) -> tensor<2x2xi32>
  check.expect_eq_const %0, dense<[[200, 300], [-200, -300]]> : tensor<2x2xi32>
  %1 = stablehlo.dot_general %lhs, %rhs, contracting_dims = [0] x [0] : (tensor<2xi8>, tensor<2xi8>) -> tensor<i8>
  check.expect_eq_const %1, dense<-100> : tensor<i8>
  return
}

// -----

// dot_general: an empty contraction is zero.
func.func @main() {
  %lhs = stablehlo.constant dense<> : tensor<2x0xf32>
  %rhs = stablehlo.constant dense<> : tensor<0x3xf32>
  %0 = stablehlo.dot_general %lhs, %rhs, contracting_dims = [1] x [0] : (tensor<2x0xf32>, tensor<0x3xf32>) -> tensor<2x3xf32>
  check.expect_eq_const %0, dense<0.0> : tensor<2x3xf32>
  return
}

// -----

// dot_general on booleans: or of ands.
func.func @main() {
  %lhs = stablehlo.constant dense<[[true, false], [true, true]]> : tensor<2x2xi1>
  %rhs = stablehlo.constant dense<[[false, true], [true, false]]> : tensor<2x2xi1>
  %0 = stablehlo.dot_general %lhs, %rhs, contracting_dims = [1] x [0] : (tensor<2x2xi1>, tensor<2x2xi1>) -> tensor<2x2xi1>
  check.expect_eq_const %0, dense<[[false, true], [true, true]]> : tensor<2x2xi1>
  return
}

// -----

// dot_general on complex numbers, the left side contracted along its first dimension.
func.func @main() {
  %lhs = stablehlo.constant dense<[[(1.0, 1.0)], [(0.0, 2.0)]]> : tensor<2x1xcomplex<f32>>
  %rhs = stablehlo.constant dense<[(1.0, -1.0), (3.0, 0.0)]> : tensor<2xcomplex<f32>>
  %0 = stablehlo.dot_general %lhs, %rhs, contracting_dims = [0] x [0] : (tensor<2x1xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<1xcomplex<f32>>
  check.expect_eq_const %0, dense<[(2.0, 6.0)]> : tensor<1xcomplex<f32>>
  return
}

// -----

// dot_general C21-C24: operands rounded to bf16 lose 1/512; three components keep it.
func.func @main() {
  %lhs = stablehlo.constant dense<[1.001953125]> : tensor<1xf32>
  %rhs = stablehlo.constant dense<[3.0]> : tensor<1xf32>
  %0 = stablehlo.dot_general %lhs, %rhs, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<1xf32>, tensor<1xf32>) -> tensor<f32>
  check.expect_eq_const %0, dense<3.0> : tensor<f32>
  %1 = stablehlo.dot_general %lhs, %rhs, contracting_dims = [0] x [0], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 3, rhs_component_count = 3, num_primitive_operations = 6, allow_imprecise_accumulation = false> : (tensor<1xf32>, tensor<1xf32>) -> tensor<f32>
  check.expect_eq_const %1, dense<3.005859375> : tensor<f32>
  %2 = stablehlo.dot_general %lhs, %rhs, contracting_dims = [0] x [0], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = true> : (tensor<1xf32>, tensor<1xf32>) -> tensor<f32>
  check.expect_eq_const %2, dense<3.005859375> : tensor<f32>
  return
}

// -----

// dot_general C14-C19: quantized, the right side per axis; 1.0 * 2 + 2.0 * 1 = 4, 1.0 * 8 + 2.0 * 4 = 16.
func.func @main() {
  %a = stablehlo.constant dense<[2, 4]> : tensor<2xi8>
  %b = stablehlo.constant dense<[[2, 4], [1, 2]]> : tensor<2x2xi8>
  %lhs = stablehlo.bitcast_convert %a : (tensor<2xi8>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  %rhs = stablehlo.bitcast_convert %b : (tensor<2x2xi8>) -> tensor<2x2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
  %0 = stablehlo.dot_general %lhs, %rhs, contracting_dims = [0] x [0] : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>) -> tensor<2x!quant.uniform<i32:f32, 0.25:1>>
  %1 = stablehlo.bitcast_convert %0 : (tensor<2x!quant.uniform<i32:f32, 0.25:1>>) -> tensor<2xi32>
  check.expect_eq_const %1, dense<[17, 65]> : tensor<2xi32>
  return
}

// -----

// dot_general C20: a float left side with a quantized right side.
func.func @main() {
  %lhs = stablehlo.constant dense<[1.5, 2.0]> : tensor<2xf32>
  %b = stablehlo.constant dense<[2, 4]> : tensor<2xi8>
  %rhs = stablehlo.bitcast_convert %b : (tensor<2xi8>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  %0 = stablehlo.dot_general %lhs, %rhs, contracting_dims = [0] x [0] : (tensor<2xf32>, tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<f32>
  check.expect_eq_const %0, dense<5.5> : tensor<f32>
  return
}

// -----

// dot: matrix by vector, vector by vector.
func.func @main() {
  %m = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf16>
  %v = stablehlo.constant dense<[10.0, 1.0]> : tensor<2xf16>
  %0 = stablehlo.dot %m, %v, precision = [HIGH, HIGHEST] : (tensor<2x2xf16>, tensor<2xf16>) -> tensor<2xf16>
  check.expect_eq_const %0, dense<[12.0, 34.0]> : tensor<2xf16>
  %1 = stablehlo.dot %v, %v : (tensor<2xf16>, tensor<2xf16>) -> tensor<f16>
  check.expect_eq_const %1, dense<101.0> : tensor<f16>
  return
}

// -----

// einsum: a product, a batched one with a transposed result, a diagonal, a sum on one side.
func.func @main() {
  %a = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %b = stablehlo.constant dense<[[5, 6], [7, 8]]> : tensor<2x2xi32>
  %0 = stablehlo.einsum %a, %b, config = "ij,jk->ik" : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %0, dense<[[19, 22], [43, 50]]> : tensor<2x2xi32>
  %1 = stablehlo.einsum %a, %b, config = "bi,bj->jib" : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2x2xi32>
  check.expect_eq_const %1, dense<[[[5, 21], [10, 28]], [[6, 24], [12, 32]]]> : tensor<2x2x2xi32>
  %2 = stablehlo.einsum %a, %b, config = "ii,jk->ik" : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %2, dense<[[12, 14], [48, 56]]> : tensor<2x2xi32>
  return
}

// -----

// unary_einsum: transpose, sum, trace, ellipsis.
func.func @main() {
  %a = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %0 = stablehlo.unary_einsum %a, config = "ij->ji" : (tensor<2x2xf32>) -> tensor<2x2xf32>
  check.expect_eq_const %0, dense<[[1.0, 3.0], [2.0, 4.0]]> : tensor<2x2xf32>
  %1 = stablehlo.unary_einsum %a, config = "ij->j" : (tensor<2x2xf32>) -> tensor<2xf32>
  check.expect_eq_const %1, dense<[4.0, 6.0]> : tensor<2xf32>
  %2 = stablehlo.unary_einsum %a, config = "ii->" : (tensor<2x2xf32>) -> tensor<f32>
  check.expect_eq_const %2, dense<5.0> : tensor<f32>
  %3 = stablehlo.unary_einsum %a, config = "...i->i..." : (tensor<2x2xf32>) -> tensor<2x2xf32>
  check.expect_eq_const %3, dense<[[1.0, 3.0], [2.0, 4.0]]> : tensor<2x2xf32>
  return
}
