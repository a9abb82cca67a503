// scatter: C2 to C6, C19, C21 to C25: added rows, one of them twice, one outside and left out.
func.func @add_rows() {
  %x = stablehlo.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>
  %i = stablehlo.constant dense<[[1], [1], [3], [-1]]> : tensor<4x1xi32>
  %u = stablehlo.constant dense<[[10, 20], [30, 40], [50, 60], [70, 80]]> : tensor<4x2xi32>
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<3x2xi32>, tensor<4x1xi32>, tensor<4x2xi32>) -> tensor<3x2xi32>
  check.expect_eq_const %y, dense<[[1, 2], [43, 64], [5, 6]]> : tensor<3x2xi32>
  check.expect_eq_const %x, dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>
  func.return
}

// -----

// scatter: each element of a window is judged alone: the ones inside are written.
func.func @partly_outside() {
  %x = stablehlo.constant dense<0.0> : tensor<4xf32>
  %i = stablehlo.constant dense<[-1, 3]> : tensor<2xi64>
  %u = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = true, unique_indices = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<4xf32>, tensor<2xi64>, tensor<2x2xf32>) -> tensor<4xf32>
  check.expect_eq_const %y, dense<[2.0, 0.0, 0.0, 3.0]> : tensor<4xf32>
  func.return
}

// -----

// scatter: C7, C8: the window dimension in front, index vectors of two places in reverse order.
func.func @window_first() {
  %x = stablehlo.constant dense<1> : tensor<2x3x2xui8>
  %i = stablehlo.constant dense<[[2, 0], [0, 1]]> : tensor<2x2xui8>
  %u = stablehlo.constant dense<[[2, 3], [4, 5]]> : tensor<2x2xui8>
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<ui8>, %b: tensor<ui8>):
    %s = stablehlo.multiply %a, %b : tensor<ui8>
    stablehlo.return %s : tensor<ui8>
  }) : (tensor<2x3x2xui8>, tensor<2x2xui8>, tensor<2x2xui8>) -> tensor<2x3x2xui8>
  check.expect_eq_const %y, dense<[[[1, 1], [1, 1], [2, 4]], [[3, 5], [1, 1], [1, 1]]]> : tensor<2x3x2xui8>
  func.return
}

// -----

// scatter: C9 to C18, C20: each batch writes into its own part.
func.func @batching() {
  %x = stablehlo.constant dense<0> : tensor<2x3xi64>
  %i = stablehlo.constant dense<[[[2], [0]], [[1], [1]]]> : tensor<2x2x1xi32>
  %u = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    %s = stablehlo.maximum %a, %b : tensor<i64>
    stablehlo.return %s : tensor<i64>
  }) : (tensor<2x3xi64>, tensor<2x2x1xi32>, tensor<2x2xi64>) -> tensor<2x3xi64>
  check.expect_eq_const %y, dense<[[0, 3, 1], [2, 4, 0]]> : tensor<2x3xi64>
  func.return
}

// -----

// scatter: C1, C3, C5: two inputs updated together, each by both.
func.func @two() {
  %x = stablehlo.constant dense<[5, 6]> : tensor<2xi32>
  %w = stablehlo.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %i = stablehlo.constant dense<[[1], [1]]> : tensor<2x1xi32>
  %u = stablehlo.constant dense<[9, 8]> : tensor<2xi32>
  %v = stablehlo.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %y:2 = "stablehlo.scatter"(%x, %w, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<f32>):
    %more = stablehlo.compare GT, %c, %a : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %p = stablehlo.select %more, %c, %a : tensor<i1>, tensor<i32>
    %q = stablehlo.multiply %b, %d : tensor<f32>
    stablehlo.return %p, %q : tensor<i32>, tensor<f32>
  }) : (tensor<2xi32>, tensor<2xf32>, tensor<2x1xi32>, tensor<2xi32>, tensor<2xf32>) -> (tensor<2xi32>, tensor<2xf32>)
  check.expect_eq_const %y#0, dense<[5, 9]> : tensor<2xi32>
  check.expect_eq_const %y#1, dense<[0.5, 2.0]> : tensor<2xf32>
  func.return
}

// -----

// scatter: C23, C25: elements are promoted to the computation's type first.
func.func @promoted() {
  %x = stablehlo.constant dense<[100, 100]> : tensor<2xi8>
  %i = stablehlo.constant dense<0> : tensor<1xi32>
  %u = stablehlo.constant dense<100> : tensor<i8>
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<2xi8>, tensor<1xi32>, tensor<i8>) -> tensor<2xi32>
  check.expect_eq_const %y, dense<[200, 100]> : tensor<2xi32>
  func.return
}

// -----

// scatter: C23: a computation that is no arithmetic on single elements, and one that captures.
func.func @any_region() {
  %x = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %i = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi32>
  %u = stablehlo.constant dense<[7, 8]> : tensor<2xi32>
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %p = stablehlo.reshape %a : (tensor<i32>) -> tensor<1xi32>
    %q = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
    %r = stablehlo.concatenate %p, %q, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %s = stablehlo.slice %r [1:2] : (tensor<2xi32>) -> tensor<1xi32>
    %t = stablehlo.subtract %s, %p : tensor<1xi32>
    %v = stablehlo.reshape %t : (tensor<1xi32>) -> tensor<i32>
    stablehlo.return %v : tensor<i32>
  }) : (tensor<3xi32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<3xi32>
  check.expect_eq_const %y, dense<[7, 2, 4]> : tensor<3xi32>
  %k = stablehlo.constant dense<100> : tensor<i32>
  %z = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %b, %k : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<3xi32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<3xi32>
  check.expect_eq_const %z, dense<[108, 2, 107]> : tensor<3xi32>
  func.return
}

// -----

// scatter: C22: indices without a dimension for vectors; booleans, complex numbers.
func.func @kinds() {
  %x = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
  %i = stablehlo.constant dense<1> : tensor<i32>
  %u = stablehlo.constant dense<true> : tensor<i1>
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}> ({
  ^bb0(%a: tensor<i1>, %b: tensor<i1>):
    %s = stablehlo.or %a, %b : tensor<i1>
    stablehlo.return %s : tensor<i1>
  }) : (tensor<3xi1>, tensor<i32>, tensor<i1>) -> tensor<3xi1>
  check.expect_eq_const %y, dense<true> : tensor<3xi1>
  %c = stablehlo.constant dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>>
  %d = stablehlo.constant dense<(0.0, 1.0)> : tensor<complex<f32>>
  %e = "stablehlo.scatter"(%c, %i, %d) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
  ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):
    %s = stablehlo.multiply %a, %b : tensor<complex<f32>>
    stablehlo.return %s : tensor<complex<f32>>
  }) : (tensor<2xcomplex<f32>>, tensor<i32>, tensor<complex<f32>>) -> tensor<2xcomplex<f32>>
  check.expect_eq_const %e, dense<[(1.0, 2.0), (-4.0, 3.0)]> : tensor<2xcomplex<f32>>
  func.return
}

// -----

// scatter: C6, C23 on quantized elements: the computation adds what they stand for.
func.func @quantized() {
  %x = stablehlo.constant dense<[2, 4, 100]> : tensor<3xi8>
  %u = stablehlo.constant dense<[6, 100]> : tensor<2xi8>
  %i = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi32>
  %qx = stablehlo.bitcast_convert %x : (tensor<3xi8>) -> tensor<3x!quant.uniform<i8:f32, 0.5:2>>
  %qu = stablehlo.bitcast_convert %u : (tensor<2xi8>) -> tensor<2x!quant.uniform<i8:f32, 0.5:2>>
  %qy = "stablehlo.scatter"(%qx, %i, %qu) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<!quant.uniform<i8:f32, 0.5:2>>, %b: tensor<!quant.uniform<i8:f32, 0.5:2>>):
    %s = stablehlo.add %a, %b : tensor<!quant.uniform<i8:f32, 0.5:2>>
    stablehlo.return %s : tensor<!quant.uniform<i8:f32, 0.5:2>>
  }) : (tensor<3x!quant.uniform<i8:f32, 0.5:2>>, tensor<2x1xi32>, tensor<2x!quant.uniform<i8:f32, 0.5:2>>) -> tensor<3x!quant.uniform<i8:f32, 0.5:2>>
  %y = stablehlo.bitcast_convert %qy : (tensor<3x!quant.uniform<i8:f32, 0.5:2>>) -> tensor<3xi8>
  check.expect_eq_const %y, dense<[2, 8, 127]> : tensor<3xi8>
  func.return
}
