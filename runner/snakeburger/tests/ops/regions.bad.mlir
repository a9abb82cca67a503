// reduce C1: inputs of different shapes
func.func @bad(%x: tensor<2xf32>, %y: tensor<3xf32>, %i: tensor<f32>) {
  %r:2 = "stablehlo.reduce"(%x, %y, %i, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %c: tensor<f32>, %b: tensor<f32>, %d: tensor<f32>):
    stablehlo.return %a, %b : tensor<f32>, tensor<f32>
  }) : (tensor<2xf32>, tensor<3xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  func.return
}

// -----

// reduce C2: an initial value of another type
func.func @bad(%x: tensor<2xf32>, %i: tensor<f64>) {
  %r = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<2xf32>, tensor<f64>) -> tensor<f32>
  func.return
}

// -----

// reduce C3: an input without its initial value
func.func @bad(%x: tensor<2xf32>) {
  %r = "stablehlo.reduce"(%x) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<f32>
  func.return
}

// -----

// reduce I2: an initial value that is no scalar
func.func @bad(%x: tensor<2xf32>, %i: tensor<1xf32>) {
  %r = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<2xf32>, tensor<1xf32>) -> tensor<f32>
  func.return
}

// -----

// reduce C4: a dimension there is not
func.func @bad(%x: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce C5: a dimension twice
func.func @bad(%x: tensor<2x2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0, 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce C6: a body of integers for floats
func.func @bad(%x: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %c = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %c : tensor<i32>
  }) : (tensor<2xf32>, tensor<f32>) -> tensor<i32>
  func.return
}

// -----

// reduce C6: a body that works in a narrower type
func.func @bad(%x: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f16>, %b: tensor<f16>):
    %c = stablehlo.add %a, %b : tensor<f16>
    stablehlo.return %c : tensor<f16>
  }) : (tensor<2xf32>, tensor<f32>) -> tensor<f16>
  func.return
}

// -----

// reduce C6: a body of tensors
func.func @bad(%x: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<1xf32>, %b: tensor<1xf32>):
    %c = stablehlo.add %a, %b : tensor<1xf32>
    stablehlo.return %c : tensor<1xf32>
  }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
  func.return
}

// -----

// reduce C7: a result of the wrong shape
func.func @bad(%x: tensor<2x3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce C8: a result of another type than the body's
func.func @bad(%x: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<2xf32>, tensor<f32>) -> tensor<f64>
  func.return
}

// -----

// reduce_window C1: no initial value
func.func @bad(%x: tensor<3xf32>) {
  %r = "stablehlo.reduce_window"(%x) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C2: inputs of different shapes
func.func @bad(%x: tensor<3xf32>, %y: tensor<4xf32>, %i: tensor<f32>) {
  %r:2 = "stablehlo.reduce_window"(%x, %y, %i, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %c: tensor<f32>, %b: tensor<f32>, %d: tensor<f32>):
    stablehlo.return %a, %b : tensor<f32>, tensor<f32>
  }) : (tensor<3xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
  func.return
}

// -----

// reduce_window C3: an initial value of another type
func.func @bad(%x: tensor<3xf32>, %i: tensor<f16>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f16>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C4: too many window_dimensions
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C5: a window without elements
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C6: too many window_strides
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 1, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C7: a stride of zero
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C8: too many base_dilations
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>, base_dilations = array<i64: 1, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C9: a negative base dilation
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>, base_dilations = array<i64: -1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C10: no window_dilations for one dimension
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>, window_dilations = array<i64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C11: a window dilation of zero
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>, window_dilations = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C12: a padding of the wrong shape
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>, padding = dense<0> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C13: a body of integers for floats
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %c = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %c : tensor<i32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C14: results of different shapes
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r:2 = "stablehlo.reduce_window"(%x, %x, %i, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %c: tensor<f32>, %b: tensor<f32>, %d: tensor<f32>):
    stablehlo.return %a, %b : tensor<f32>, tensor<f32>
  }) : (tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<f32>) -> (tensor<2xf32>, tensor<3xf32>)
  func.return
}

// -----

// reduce_window C15: a result of the wrong shape
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return
}

// -----

// reduce_window C15: more windows than 64 bits count
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>, padding = dense<9223372036854775807> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// reduce_window C16: a result of another type than the body's
func.func @bad(%x: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<f32>) -> tensor<2xf64>
  func.return
}

// -----

// select_and_scatter C1: a source of another type
func.func @bad(%x: tensor<3xf32>, %s: tensor<2xf64>, %i: tensor<f32>) {
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<2xf64>, tensor<f32>) -> tensor<3xf32>
  func.return
}

// -----

// select_and_scatter C2: a source element too many
func.func @bad(%x: tensor<3xf32>, %s: tensor<3xf32>, %i: tensor<f32>) {
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return
}

// -----

// select_and_scatter C3: an initial value of another type
func.func @bad(%x: tensor<3xf32>, %s: tensor<2xf32>, %i: tensor<f64>) {
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<2xf32>, tensor<f64>) -> tensor<3xf32>
  func.return
}

// -----

// select_and_scatter C4: too many window_dimensions
func.func @bad(%x: tensor<3xf32>, %s: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
  func.return
}

// -----

// select_and_scatter C5: a window without elements
func.func @bad(%x: tensor<3xf32>, %s: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
  func.return
}

// -----

// select_and_scatter C6: too many window_strides
func.func @bad(%x: tensor<3xf32>, %s: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 1, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
  func.return
}

// -----

// select_and_scatter C7: a negative stride
func.func @bad(%x: tensor<3xf32>, %s: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>, window_strides = array<i64: -1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
  func.return
}

// -----

// select_and_scatter C8: a padding of the wrong shape
func.func @bad(%x: tensor<3xf32>, %s: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>, padding = dense<0> : tensor<2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
  func.return
}

// -----

// select_and_scatter C9: select yields a float
func.func @bad(%x: tensor<3xf32>, %s: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
  func.return
}

// -----

// select_and_scatter C10: scatter works on integers
func.func @bad(%x: tensor<3xf32>, %s: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %c = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %c : tensor<i32>
  }) : (tensor<3xf32>, tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
  func.return
}

// -----

// select_and_scatter C11: a result of another shape
func.func @bad(%x: tensor<3xf32>, %s: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  func.return
}

// -----

// select_and_scatter C12: a result of another type
func.func @bad(%x: tensor<3xf32>, %s: tensor<2xf32>, %i: tensor<f32>) {
  %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<3xf32>, tensor<2xf32>, tensor<f32>) -> tensor<3xf64>
  func.return
}

// -----

// sort C1: nothing to sort
func.func @bad() {
  "stablehlo.sort"() <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : () -> ()
  func.return
}

// -----

// sort C2: a result of another type
func.func @bad(%x: tensor<2xf32>) {
  %r = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<2xf32>) -> tensor<2xf64>
  func.return
}

// -----

// sort C3: inputs of different shapes
func.func @bad(%x: tensor<2xf32>, %y: tensor<3xf32>) {
  %r:2 = "stablehlo.sort"(%x, %y) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<2xf32>, tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>)
  func.return
}

// -----

// sort C4: a dimension there is not
func.func @bad(%x: tensor<2xf32>) {
  %r = "stablehlo.sort"(%x) <{dimension = -2 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

// sort C5: a comparator of another type
func.func @bad(%x: tensor<2xi32>) {
  %r = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<2xi32>) -> tensor<2xi32>
  func.return
}

// -----

// map C1: a result of another shape
func.func @bad(%x: tensor<2xf32>) {
  %r = "stablehlo.map"(%x) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<3xf32>
  func.return
}

// -----

// map C2: nothing to map
func.func @bad() {
  %r = "stablehlo.map"() <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) : () -> tensor<3xf32>
  func.return
}

// -----

// map C3: not all dimensions
func.func @bad(%x: tensor<2x2xf32>) {
  %r = "stablehlo.map"(%x) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

// map C4: a computation of another type
func.func @bad(%x: tensor<2xf32>) {
  %r = "stablehlo.map"(%x) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf64>
  func.return
}
