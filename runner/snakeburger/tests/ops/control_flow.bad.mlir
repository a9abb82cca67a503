// while C1: a condition that yields a number
func.func @bad(%x: tensor<i32>) {
  %r = stablehlo.while(%a = %x) : tensor<i32> cond {
    stablehlo.return %a : tensor<i32>
  } do {
    stablehlo.return %a : tensor<i32>
  }
  func.return
}

// -----

// while C2: a body that yields another type
func.func @bad(%x: tensor<i32>, %t: tensor<i1>) {
  %r = stablehlo.while(%a = %x) : tensor<i32> cond {
    stablehlo.return %t : tensor<i1>
  } do {
    stablehlo.return %t : tensor<i1>
  }
  func.return
}

// -----

// while C3: a result too many
func.func @bad(%x: tensor<i32>, %t: tensor<i1>) {
  %r:2 = "stablehlo.while"(%x) ({
  ^bb0(%a: tensor<i32>):
    stablehlo.return %t : tensor<i1>
  }, {
  ^bb0(%a: tensor<i32>):
    stablehlo.return %a : tensor<i32>
  }) : (tensor<i32>) -> (tensor<i32>, tensor<i32>)
  func.return
}

// -----

// if I1: a predicate that is no truth value
func.func @bad(%p: tensor<i32>, %x: tensor<i32>, %y: tensor<f32>) {
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<i32>
  }, {
    stablehlo.return %x : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  func.return
}

// -----

// if C1: a branch with an argument
func.func @bad(%p: tensor<i1>, %x: tensor<i32>, %y: tensor<f32>) {
  %r = "stablehlo.if"(%p) ({
  ^bb0(%a: tensor<i32>):
    stablehlo.return %x : tensor<i32>
  }, {
    stablehlo.return %x : tensor<i32>
  }) : (tensor<i1>) -> tensor<i32>
  func.return
}

// -----

// if C2: branches that yield different types
func.func @bad(%p: tensor<i1>, %x: tensor<i32>, %y: tensor<f32>) {
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<i32>
  }, {
    stablehlo.return %y : tensor<f32>
  }) : (tensor<i1>) -> tensor<i32>
  func.return
}

// -----

// if C3: a result of another type
func.func @bad(%p: tensor<i1>, %x: tensor<i32>, %y: tensor<f32>) {
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<i32>
  }, {
    stablehlo.return %x : tensor<i32>
  }) : (tensor<i1>) -> tensor<f32>
  func.return
}

// -----

// case I1: an index of another type
func.func @bad(%i: tensor<i64>, %x: tensor<i32>, %y: tensor<f32>) {
  %r = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<i32>
  }) : (tensor<i64>) -> tensor<i32>
  func.return
}

// -----

// case C1: no branches
func.func @bad(%i: tensor<i32>, %x: tensor<i32>, %y: tensor<f32>) {
  %r = "stablehlo.case"(%i) : (tensor<i32>) -> tensor<i32>
  func.return
}

// -----

// case C2: a branch with an argument
func.func @bad(%i: tensor<i32>, %x: tensor<i32>, %y: tensor<f32>) {
  %r = "stablehlo.case"(%i) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %x : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  func.return
}

// -----

// case C3: branches that yield different types
func.func @bad(%i: tensor<i32>, %x: tensor<i32>, %y: tensor<f32>) {
  %r = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<i32>
  }, {
    stablehlo.return %y : tensor<f32>
  }) : (tensor<i32>) -> tensor<i32>
  func.return
}

// -----

// case C4: a result of another type
func.func @bad(%i: tensor<i32>, %x: tensor<i32>, %y: tensor<f32>) {
  %r = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<i32>
  }) : (tensor<i32>) -> tensor<f32>
  func.return
}

// -----

// composite C1: a name without its dialect
func.func private @impl(%x: tensor<i32>) -> tensor<i32> {
  func.return %x : tensor<i32>
}
func.func @bad(%x: tensor<i32>) {
  %r = stablehlo.composite "plain" %x {decomposition = @impl} : (tensor<i32>) -> tensor<i32>
  func.return
}

// -----

// composite C2: a decomposition there is not
func.func private @impl(%x: tensor<i32>) -> tensor<i32> {
  func.return %x : tensor<i32>
}
func.func @bad(%x: tensor<i32>) {
  %r = stablehlo.composite "a.b" %x {decomposition = @missing} : (tensor<i32>) -> tensor<i32>
  func.return
}

// -----

// composite C3: an operand of another type
func.func private @impl(%x: tensor<i32>) -> tensor<i32> {
  func.return %x : tensor<i32>
}
func.func @bad(%x: tensor<f32>) {
  %r = stablehlo.composite "a.b" %x {decomposition = @impl} : (tensor<f32>) -> tensor<i32>
  func.return
}

// -----

// composite C4: a result of another type
func.func private @impl(%x: tensor<i32>) -> tensor<i32> {
  func.return %x : tensor<i32>
}
func.func @bad(%x: tensor<i32>) {
  %r = stablehlo.composite "a.b" %x {decomposition = @impl} : (tensor<i32>) -> tensor<f32>
  func.return
}

// -----

// optimization_barrier C1: a result of another type
func.func @bad(%x: tensor<i32>) {
  %r = "stablehlo.optimization_barrier"(%x) : (tensor<i32>) -> tensor<f32>
  func.return
}

// -----

// optimization_barrier C1: a result too few
func.func @bad(%x: tensor<i32>) {
  "stablehlo.optimization_barrier"(%x) : (tensor<i32>) -> ()
  func.return
}

// -----

// tuple C1: a tuple of other types
func.func @bad(%x: tensor<i32>) {
  %r = stablehlo.tuple %x : tuple<tensor<f32>>
  func.return
}

// -----

// get_tuple_element I1: no tuple
func.func @bad(%x: tensor<i32>) {
  %r = stablehlo.get_tuple_element %x[0] : (tensor<i32>) -> tensor<i32>
  func.return
}

// -----

// get_tuple_element C1: an element there is not
func.func @bad(%x: tuple<tensor<i32>>) {
  %r = stablehlo.get_tuple_element %x[1] : (tuple<tensor<i32>>) -> tensor<i32>
  func.return
}

// -----

// get_tuple_element C2: another type
func.func @bad(%x: tuple<tensor<i32>>) {
  %r = stablehlo.get_tuple_element %x[0] : (tuple<tensor<i32>>) -> tensor<f32>
  func.return
}

// -----

// after_all I1: no token
func.func @bad(%x: tensor<i32>) {
  %r = "stablehlo.after_all"(%x) : (tensor<i32>) -> !stablehlo.token
  func.return
}

// -----

// create_token: a result that is no token
func.func @bad() {
  %r = stablehlo.create_token : tensor<i32>
  func.return
}

// -----

// async_start C1: two operations in the body
func.func @bad(%x: tensor<2xi32>, %y: tensor<2xi32>) {
  %r = "stablehlo.async_start"(%x) ({
    %a = "stablehlo.slice"(%x) <{start_indices = array<i64: 0>, limit_indices = array<i64: 1>, strides = array<i64: 1>}> : (tensor<2xi32>) -> tensor<1xi32>
    %b = "stablehlo.slice"(%x) <{start_indices = array<i64: 0>, limit_indices = array<i64: 1>, strides = array<i64: 1>}> : (tensor<2xi32>) -> tensor<1xi32>
    stablehlo.return %b : tensor<1xi32>
  }) : (tensor<2xi32>) -> !stablehlo.future<tensor<1xi32>>
  func.return
}

// -----

// async_start C2: an operation that cannot be asynchronous
func.func @bad(%x: tensor<2xi32>, %y: tensor<2xi32>) {
  %r = "stablehlo.async_start"(%x) ({
    %a = stablehlo.negate %x : tensor<2xi32>
    stablehlo.return %a : tensor<2xi32>
  }) : (tensor<2xi32>) -> !stablehlo.future<tensor<2xi32>>
  func.return
}

// -----

// async_start C3: an operand the body does not use
func.func @bad(%x: tensor<2xi32>, %y: tensor<2xi32>) {
  %r = "stablehlo.async_start"(%y) ({
    %a = "stablehlo.slice"(%x) <{start_indices = array<i64: 0>, limit_indices = array<i64: 1>, strides = array<i64: 1>}> : (tensor<2xi32>) -> tensor<1xi32>
    stablehlo.return %a : tensor<1xi32>
  }) : (tensor<2xi32>) -> !stablehlo.future<tensor<1xi32>>
  func.return
}

// -----

// async_start C4: a future of another type
func.func @bad(%x: tensor<2xi32>, %y: tensor<2xi32>) {
  %r = "stablehlo.async_start"(%x) ({
    %a = "stablehlo.slice"(%x) <{start_indices = array<i64: 0>, limit_indices = array<i64: 1>, strides = array<i64: 1>}> : (tensor<2xi32>) -> tensor<1xi32>
    stablehlo.return %a : tensor<1xi32>
  }) : (tensor<2xi32>) -> !stablehlo.future<tensor<2xi32>>
  func.return
}

// -----

// async_done I1: no future
func.func @bad(%x: tensor<i32>) {
  %r = "stablehlo.async_done"(%x) : (tensor<i32>) -> tensor<i32>
  func.return
}

// -----

// async_done C1: another type
func.func @bad(%x: !stablehlo.future<tensor<i32>>) {
  %r = "stablehlo.async_done"(%x) : (!stablehlo.future<tensor<i32>>) -> tensor<f32>
  func.return
}
