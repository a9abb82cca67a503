//! AMD GPUs through the HIP runtime and hipRTC, loaded at run time. Written after their headers, and
//! compiled; it has not run on such hardware so far.

#![expect(unsafe_code, reason = "HIP's calls are unsafe by nature")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::time::Duration;

use super::api::{About, Api, BLOCK, Done, KERNELS, Kernel, Plan, SOURCE, Shape, Way, failed};
use super::format::{E4M3, E4M3_FNUZ, Format};
use super::hipblas;
use crate::dynlib::{Fault, HIP, Library};
use crate::suite::Unable;
use crate::system::{GpuVendor, System};

/// A library's functions, each with its name and the types of its arguments. All of them return an
/// `int` that is zero where nothing failed.
macro_rules! functions {
    ($table:ident { $($field:ident: $name:literal ($($argument:ty),*);)* }) => {
        #[derive(Clone, Copy)]
        pub(super) struct $table {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl $table {
            /// # Safety
            /// The library is the one whose headers declare these functions so.
            pub unsafe fn load(library: &Library) -> Result<Self, Fault> {
                // SAFETY: the caller's promise.
                unsafe { Ok(Self { $($field: *library.function($name)?,)* }) }
            }

            #[cfg(test)]
            pub const NAMES: &[&str] = &[$($name),*];
        }
    };
}
pub(super) use functions;

type Handle = *mut c_void;

functions!(Runtime {
    set_device: "hipSetDevice" (c_int);
    device_name: "hipDeviceGetName" (*mut c_char, c_int, c_int);
    device_uuid: "hipDeviceGetUuid" (*mut u8, c_int);
    device_address: "hipDeviceGetPCIBusId" (*mut c_char, c_int, c_int);
    memory_info: "hipMemGetInfo" (*mut usize, *mut usize);
    malloc: "hipMalloc" (*mut Handle, usize);
    free: "hipFree" (Handle);
    malloc_host: "hipHostMalloc" (*mut Handle, usize, c_uint);
    free_host: "hipHostFree" (Handle);
    memcpy: "hipMemcpyAsync" (Handle, *const c_void, usize, c_int, Handle);
    stream_create: "hipStreamCreateWithFlags" (*mut Handle, c_uint);
    stream_destroy: "hipStreamDestroy" (Handle);
    stream_wait: "hipStreamWaitEvent" (Handle, Handle, c_uint);
    stream_synchronize: "hipStreamSynchronize" (Handle);
    event_create: "hipEventCreate" (*mut Handle);
    event_destroy: "hipEventDestroy" (Handle);
    event_record: "hipEventRecord" (Handle, Handle);
    event_synchronize: "hipEventSynchronize" (Handle);
    event_elapsed: "hipEventElapsedTime" (*mut f32, Handle, Handle);
    module_load: "hipModuleLoadData" (*mut Handle, *const c_void);
    module_function: "hipModuleGetFunction" (*mut Handle, Handle, *const c_char);
    launch: "hipModuleLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle,
        *mut *mut c_void, *mut *mut c_void
    );
});

functions!(Compiler {
    create: "hiprtcCreateProgram" (
        *mut Handle, *const c_char, *const c_char, c_int, *const *const c_char,
        *const *const c_char
    );
    compile: "hiprtcCompileProgram" (Handle, c_int, *const *const c_char);
    log_size: "hiprtcGetProgramLogSize" (Handle, *mut usize);
    log: "hiprtcGetProgramLog" (Handle, *mut c_char);
    code_size: "hiprtcGetCodeSize" (Handle, *mut usize);
    code: "hiprtcGetCode" (Handle, *mut c_char);
    destroy: "hiprtcDestroyProgram" (*mut Handle);
});

/// Older releases have the compiler inside the runtime.
const COMPILER: &[&str] = &[
    "libhiprtc.so",
    "libhiprtc.so.7",
    "libhiprtc.so.6",
    "/opt/rocm/lib/libhiprtc.so",
    "libamdhip64.so",
];

/// The flag of streams that do not wait for the default one.
const NON_BLOCKING: c_uint = 1;

pub(super) struct Hip {
    about: About,
    runtime: Runtime,
    queues: [Handle; 2],
    /// Before all, after the second queue, after all.
    marks: [Handle; 3],
    kernels: Vec<Handle>,
}

// SAFETY: streams, events and functions may be used from any thread; each call names its device.
unsafe impl Send for Hip {}
// SAFETY: as above; the runtime locks what it shares.
unsafe impl Sync for Hip {}

fn done(call: &str, code: c_int) -> Done {
    if code == 0 { Ok(()) } else { Err(failed(call, format!("error {code}"))) }
}

fn made<T: Copy>(call: &str, nothing: T, make: impl FnOnce(*mut T) -> c_int) -> Done<T> {
    let mut value = nothing;
    let code = make(&raw mut value);
    done(call, code).map(|()| value)
}

fn handle(call: &str, make: impl FnOnce(*mut Handle) -> c_int) -> Done<Handle> {
    made(call, ptr::null_mut(), make)
}

impl Hip {
    /// Opens a GPU. The runtime is loaded and initialised: `dynlib::hip` was asked before.
    pub fn open(index: u32, system: &System) -> Done<Self> {
        let library = Library::open_any(HIP).map_err(|fault| Unable::Missing(fault.to_string()))?;
        // SAFETY: this is the HIP runtime, and hip_runtime_api.h declares the functions so.
        let runtime = unsafe { Runtime::load(&library) };
        let runtime = runtime.map_err(|fault| Unable::Failed(fault.to_string()))?;
        // SAFETY: the index is one that the runtime listed.
        done("hipSetDevice", unsafe { (runtime.set_device)(index as c_int) })?;
        // SAFETY: each call writes the handle it makes.
        let queue = || {
            handle("hipStreamCreateWithFlags", |to| unsafe {
                (runtime.stream_create)(to, NON_BLOCKING)
            })
        };
        // SAFETY: likewise.
        let mark = || handle("hipEventCreate", |to| unsafe { (runtime.event_create)(to) });
        Ok(Self {
            about: about(&runtime, index, system)?,
            runtime,
            queues: [queue()?, queue()?],
            marks: [mark()?, mark()?, mark()?],
            kernels: Vec::new(),
        })
    }

    fn record(&self, mark: usize, queue: usize) -> Done {
        // SAFETY: both live until `self` is dropped.
        let code = unsafe { (self.runtime.event_record)(self.marks[mark], self.queues[queue]) };
        done("hipEventRecord", code)
    }

    fn hold(&self, queue: usize, mark: usize) -> Done {
        // SAFETY: both live until `self` is dropped.
        let code = unsafe { (self.runtime.stream_wait)(self.queues[queue], self.marks[mark], 0) };
        done("hipStreamWaitEvent", code)
    }
}

fn about(runtime: &Runtime, index: u32, system: &System) -> Done<About> {
    let device = index as c_int;
    let string = |call, get: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int| {
        let mut buffer = [0_u8; 256];
        // SAFETY: the buffer is as long as is said.
        done(call, unsafe { get(buffer.as_mut_ptr().cast(), buffer.len() as c_int, device) })?;
        Ok::<_, Unable>(super::text(&buffer))
    };
    let mut uuid = [0; 16];
    // SAFETY: a hipUUID is sixteen bytes.
    done("hipDeviceGetUuid", unsafe { (runtime.device_uuid)(uuid.as_mut_ptr(), device) })?;
    let pci = string("hipDeviceGetPCIBusId", runtime.device_address)?.to_lowercase();
    let known = system.gpus.iter().find(|gpu| gpu.pci_address.as_ref() == Some(&pci));
    let target = known.and_then(|gpu| gpu.gfx_target.clone()).unwrap_or_default();
    Ok(About {
        vendor: GpuVendor::Amd,
        index,
        name: string("hipDeviceGetName", runtime.device_name)?,
        uuid: super::uuid(&uuid),
        pci,
        tf32: target == "gfx942",
        bf16: true,
        fp8: fp8(&target),
    })
}

/// The eight-bit format of an instruction set's matrix units.
fn fp8(target: &str) -> Option<Format> {
    match target {
        "gfx942" => Some(E4M3_FNUZ),
        "gfx950" | "gfx1200" | "gfx1201" => Some(E4M3),
        _ => None,
    }
}

/// Code for the GPU that is current.
fn compiled() -> Done<Vec<u8>> {
    let library = Library::open_any(COMPILER).map_err(|fault| {
        Unable::Missing(format!("hipRTC cannot be used ({fault}): install ROCm's libraries"))
    })?;
    // SAFETY: this is hipRTC, and hiprtc.h declares the functions so.
    let compiler = unsafe { Compiler::load(&library) };
    let compiler = compiler.map_err(|fault| Unable::Failed(fault.to_string()))?;
    let none = ptr::null();
    // SAFETY: the texts end in NUL and outlive the program.
    let program = handle("hiprtcCreateProgram", |to| unsafe {
        (compiler.create)(to, SOURCE.as_ptr(), c"kernels.cu".as_ptr(), 0, none, none)
    })?;
    // SAFETY: the program exists until it is destroyed.
    unsafe {
        let code = match (compiler.compile)(program, 0, none) {
            0 => output("hiprtcGetCode", program, compiler.code_size, compiler.code),
            code => {
                let log = output("hiprtcGetProgramLog", program, compiler.log_size, compiler.log);
                let log = super::text(&log.unwrap_or_default());
                Err(failed("hiprtcCompileProgram", format!("error {code}: {log}")))
            }
        };
        (compiler.destroy)(&mut { program });
        code
    }
}

/// # Safety
/// The functions tell the length of something of this program, and write it.
unsafe fn output(
    call: &str,
    program: Handle,
    size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    write: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
) -> Done<Vec<u8>> {
    // SAFETY: the caller's promise.
    let bytes = made(call, 0, |to| unsafe { size(program, to) })?;
    let mut output = vec![0_u8; bytes];
    // SAFETY: the buffer is as long as was said.
    done(call, unsafe { write(program, output.as_mut_ptr().cast()) }).map(|()| output)
}

impl Api for Hip {
    fn about(&self) -> &About {
        &self.about
    }

    fn bind(&self) -> Done {
        // SAFETY: the index is one that the runtime listed.
        done("hipSetDevice", unsafe { (self.runtime.set_device)(self.about.index as c_int) })
    }

    fn compile(&mut self) -> Done {
        self.bind()?;
        let code = compiled()?;
        // SAFETY: the image is whole, and the module is never unloaded.
        let module = handle("hipModuleLoadData", |to| unsafe {
            (self.runtime.module_load)(to, code.as_ptr().cast())
        })?;
        let function = |name: &&CStr| {
            // SAFETY: the module was just loaded, and the name ends in NUL.
            handle("hipModuleGetFunction", |to| unsafe {
                (self.runtime.module_function)(to, module, name.as_ptr())
            })
        };
        self.kernels = KERNELS.iter().map(function).collect::<Done<_>>()?;
        Ok(())
    }

    fn free_memory(&self) -> Done<usize> {
        self.bind()?;
        let mut total = 0;
        // SAFETY: both places are written.
        made("hipMemGetInfo", 0, |to| unsafe { (self.runtime.memory_info)(to, &raw mut total) })
    }

    fn alloc(&self, bytes: usize) -> Done<u64> {
        self.bind()?;
        let call = format!("hipMalloc of {bytes} bytes");
        // SAFETY: the address is written where it is asked for.
        handle(&call, |to| unsafe { (self.runtime.malloc)(to, bytes) }).map(|memory| memory as u64)
    }

    unsafe fn free(&self, address: u64) {
        if self.bind().is_ok() {
            // SAFETY: the caller's promise. A device that has failed has nothing left to free.
            unsafe { (self.runtime.free)(address as Handle) };
        }
    }

    fn alloc_pinned(&self, bytes: usize) -> Done<u64> {
        self.bind()?;
        let call = format!("hipHostMalloc of {bytes} bytes");
        // SAFETY: the address is written where it is asked for.
        let memory = handle(&call, |to| unsafe { (self.runtime.malloc_host)(to, bytes, 0) })?;
        Ok(memory as u64)
    }

    unsafe fn free_pinned(&self, address: u64) {
        if self.bind().is_ok() {
            // SAFETY: the caller's promise.
            unsafe { (self.runtime.free_host)(address as Handle) };
        }
    }

    unsafe fn copy(&self, queue: usize, way: Way, to: u64, from: u64, bytes: usize) -> Done {
        self.bind()?;
        let kind = match way {
            Way::ToDevice => 1,
            Way::ToHost => 2,
            Way::Within => 3,
        };
        let (to, from) = (to as Handle, from as *const c_void);
        // SAFETY: the caller's promise.
        let code = unsafe { (self.runtime.memcpy)(to, from, bytes, kind, self.queues[queue]) };
        done("hipMemcpyAsync", code)
    }

    unsafe fn launch(&self, kernel: Kernel, blocks: u32, arguments: &mut [u64]) -> Done {
        self.bind()?;
        let function = self.kernels[kernel as usize];
        let mut places: Vec<*mut c_void> =
            arguments.iter_mut().map(|argument| ptr::from_mut(argument).cast()).collect();
        let (places, queue, none) = (places.as_mut_ptr(), self.queues[0], ptr::null_mut());
        let launch = self.runtime.launch;
        // SAFETY: HIP takes the arguments before it returns; the rest is the caller's promise.
        let code = unsafe { launch(function, blocks, 1, 1, BLOCK, 1, 1, 0, queue, places, none) };
        done("hipModuleLaunchKernel", code)
    }

    fn start(&self) -> Done {
        self.bind()?;
        self.record(0, 0)?;
        self.hold(1, 0)
    }

    fn stop(&self) -> Done<Duration> {
        self.bind()?;
        self.record(1, 1)?;
        self.hold(0, 1)?;
        self.record(2, 0)?;
        let [first, _, last] = self.marks;
        // SAFETY: the marks live until `self` is dropped.
        done("hipEventSynchronize", unsafe { (self.runtime.event_synchronize)(last) })?;
        // SAFETY: both marks have been passed.
        let milliseconds = made("hipEventElapsedTime", 0.0, |to| unsafe {
            (self.runtime.event_elapsed)(to, first, last)
        })?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
    }

    fn wait(&self) -> Done {
        self.bind()?;
        for queue in self.queues {
            // SAFETY: the queues live until `self` is dropped.
            done("hipStreamSynchronize", unsafe { (self.runtime.stream_synchronize)(queue) })?;
        }
        Ok(())
    }

    unsafe fn plan(&self, shape: &Shape, workspace: u64) -> Done<Box<dyn Plan>> {
        self.bind()?;
        // SAFETY: the caller's promise; the queue lives as long as `self`.
        Ok(Box::new(unsafe { hipblas::Multiplication::new(shape, self.queues[0], workspace) }?))
    }
}

impl Drop for Hip {
    fn drop(&mut self) {
        if self.wait().is_err() {
            return;
        }
        // SAFETY: nothing is queued any more, and nobody else has these handles.
        unsafe {
            for mark in self.marks {
                (self.runtime.event_destroy)(mark);
            }
            for queue in self.queues {
                (self.runtime.stream_destroy)(queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynlib;

    #[test]
    fn every_function_is_named_once_and_as_its_library_names_it() {
        let tables = [("hip", Runtime::NAMES), ("hiprtc", Compiler::NAMES)];
        for (prefix, names) in tables {
            let unique: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(unique.len(), names.len(), "{names:?}");
            assert!(names.iter().all(|name| name.starts_with(prefix)), "{names:?}");
        }
    }

    #[test]
    fn eight_bit_formats_by_instruction_set() {
        assert_eq!(fp8("gfx942"), Some(E4M3_FNUZ));
        assert_eq!(fp8("gfx950"), Some(E4M3));
        assert_eq!(fp8("gfx90a"), None);
    }

    /// Without the runtime a GPU cannot be opened, and the reason names what is missing.
    #[test]
    fn a_runtime_that_is_not_there_is_named() {
        if let Err(Fault::Absent(_)) = dynlib::hip() {
            let system = crate::system::snapshot();
            let missing = Unable::Missing("libamdhip64.so not found".into());
            assert_eq!(Hip::open(0, &system).err(), Some(missing));
        }
    }
}
