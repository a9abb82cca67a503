//! The compiler: programs into programs, without a device in sight. Today it makes the training
//! step of a model one program: its gradients (`differentiate`) and the update of its parameters.
