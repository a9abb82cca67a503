// scatter C1, C3, C6: inputs of two shapes, updates of two shapes and another element type.
func.func @f(%x: tensor<3x4xi32>, %x2: tensor<3x5xi32>, %i: tensor<5x1xi64>, %u: tensor<5x4xi32>, %u2: tensor<5x3xi64>) -> (tensor<3x4xi32>, tensor<3x5xi32>) {
  %y:2 = "stablehlo.scatter"(%x, %x2, %i, %u, %u2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    stablehlo.return %c, %d : tensor<i32>, tensor<i32>
  }) : (tensor<3x4xi32>, tensor<3x5xi32>, tensor<5x1xi64>, tensor<5x4xi32>, tensor<5x3xi64>) -> (tensor<3x4xi32>, tensor<3x5xi32>)
  func.return %y#0, %y#1 : tensor<3x4xi32>, tensor<3x5xi32>
}

// -----

// scatter C2: the dimension lists do not name each dimension of the input.
func.func @f(%x: tensor<3x4x6xi32>, %i: tensor<5x1xi64>, %u: tensor<5x4xi32>) -> tensor<3x4x6xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4x6xi32>, tensor<5x1xi64>, tensor<5x4xi32>) -> tensor<3x4x6xi32>
  func.return %y : tensor<3x4x6xi32>
}

// -----

// scatter C4: another number of windows.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %u: tensor<6x4xi32>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<6x4xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// -----

// scatter C4: a window larger than the input.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %u: tensor<5x7xi32>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<5x7xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// -----

// scatter C5: one input, no updates.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// -----

// scatter C7: update_window_dims out of order.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %u: tensor<5x3x4xi32>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 1], inserted_window_dims = [], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<5x3x4xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// -----

// scatter C8: a window dimension that is none.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %u: tensor<5x4xi32>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<5x4xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// -----

// scatter C9: an inserted dimension twice.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %u: tensor<5xi32>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [], inserted_window_dims = [0, 0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<5xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// -----

// scatter C10: inserted dimensions out of order.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %u: tensor<5xi32>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [], inserted_window_dims = [1, 0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<5xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// -----

// scatter C11: an inserted dimension that is none.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %u: tensor<5x4xi32>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [2], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<5x4xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// -----

// scatter C12: batching dimensions out of order.
func.func @f(%x: tensor<2x3x4xi32>, %i: tensor<3x2x1xi64>, %u: tensor<3x2x4xi32>) -> tensor<2x3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [], input_batching_dims = [1, 0], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<2x3x4xi32>, tensor<3x2x1xi64>, tensor<3x2x4xi32>) -> tensor<2x3x4xi32>
  func.return %y : tensor<2x3x4xi32>
}

// -----

// scatter C13: a batching dimension that is none.
func.func @f(%x: tensor<2x3x4xi32>, %i: tensor<2x5x1xi64>, %u: tensor<2x5x4xi32>) -> tensor<2x3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [3], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<2x3x4xi32>, tensor<2x5x1xi64>, tensor<2x5x4xi32>) -> tensor<2x3x4xi32>
  func.return %y : tensor<2x3x4xi32>
}

// -----

// scatter C14: an index's batching dimension twice.
func.func @f(%x: tensor<2x2x4xi32>, %i: tensor<2x5x1xi64>, %u: tensor<2x5x4xi32>) -> tensor<2x2x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 0], scatter_dims_to_operand_dims = [2], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<2x2x4xi32>, tensor<2x5x1xi64>, tensor<2x5x4xi32>) -> tensor<2x2x4xi32>
  func.return %y : tensor<2x2x4xi32>
}

// -----

// scatter C15: an index's batching dimension that is none.
func.func @f(%x: tensor<2x3x4xi32>, %i: tensor<2x5x1xi64>, %u: tensor<2x5x4xi32>) -> tensor<2x3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [-1], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<2x3x4xi32>, tensor<2x5x1xi64>, tensor<2x5x4xi32>) -> tensor<2x3x4xi32>
  func.return %y : tensor<2x3x4xi32>
}

// -----

// scatter C16: index vectors along a batching dimension.
func.func @f(%x: tensor<1x3x4xi32>, %i: tensor<2x5x1xi64>, %u: tensor<2x5x4xi32>) -> tensor<1x3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [2], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<1x3x4xi32>, tensor<2x5x1xi64>, tensor<2x5x4xi32>) -> tensor<1x3x4xi32>
  func.return %y : tensor<1x3x4xi32>
}

// -----

// scatter C17: more batching dimensions on one side.
func.func @f(%x: tensor<2x3x4xi32>, %i: tensor<2x5x1xi64>, %u: tensor<2x5x4xi32>) -> tensor<2x3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<2x3x4xi32>, tensor<2x5x1xi64>, tensor<2x5x4xi32>) -> tensor<2x3x4xi32>
  func.return %y : tensor<2x3x4xi32>
}

// -----

// scatter C18: batching dimensions of different sizes.
func.func @f(%x: tensor<7x3x4xi32>, %i: tensor<2x5x1xi64>, %u: tensor<2x5x4xi32>) -> tensor<7x3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<7x3x4xi32>, tensor<2x5x1xi64>, tensor<2x5x4xi32>) -> tensor<7x3x4xi32>
  func.return %y : tensor<7x3x4xi32>
}

// -----

// scatter C19: index vectors of another length than scatter_dims_to_operand_dims.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x2xi64>, %u: tensor<5x4xi32>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x2xi64>, tensor<5x4xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// -----

// scatter C20: a dimension both indexed and batching.
func.func @f(%x: tensor<2x3x4xi32>, %i: tensor<2x5x1xi64>, %u: tensor<2x5x4xi32>) -> tensor<2x3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<2x3x4xi32>, tensor<2x5x1xi64>, tensor<2x5x4xi32>) -> tensor<2x3x4xi32>
  func.return %y : tensor<2x3x4xi32>
}

// -----

// scatter C21: an indexed dimension that is none.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %u: tensor<5x4xi32>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [2], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<5x4xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// -----

// scatter C22: no place for index vectors.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %u: tensor<5x4xi32>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = -1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<5x4xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// -----

// scatter C23: a computation of three arguments.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %u: tensor<5x4xi32>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<5x4xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// -----

// scatter C23: a computation that narrows the elements.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %u: tensor<5x4xi32>) -> tensor<3x4xi16> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i16>, %b: tensor<i16>):
    stablehlo.return %b : tensor<i16>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<5x4xi32>) -> tensor<3x4xi16>
  func.return %y : tensor<3x4xi16>
}

// -----

// scatter C24: a result of another shape; I2: indices that are floats.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xf32>, %u: tensor<5x4xi32>) -> tensor<3x5xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<5x1xf32>, tensor<5x4xi32>) -> tensor<3x5xi32>
  func.return %y : tensor<3x5xi32>
}

// -----

// scatter C25: a result of another type than the computation's.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %u: tensor<5x4xi32>) -> tensor<3x4xi32> {
  %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %b : tensor<i64>
  }) : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<5x4xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}
