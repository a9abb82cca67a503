//! NVIDIA GPUs through the CUDA driver and NVRTC, loaded at run time by `cudarc`. Its loader panics
//! where a library is missing, so each is looked for with our own before `cudarc` is asked for it.

#![expect(unsafe_code, reason = "the CUDA driver's calls are unsafe by nature")]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::Duration;

use cudarc::driver::result::{
    self, DriverError, device, event, free_host, free_sync, malloc_host, malloc_sync, mem_get_info,
    memcpy_dtod_async, module, primary_ctx, stream,
};
use cudarc::driver::sys::{
    self, CUcontext, CUdevice_attribute as Attribute, CUevent, CUevent_flags, CUevent_wait_flags,
    CUfunction, CUstream,
};
use cudarc::nvrtc::{result as nvrtc, sys as nvrtc_sys};

use super::api::{About, Api, BLOCK, Done, KERNELS, Kernel, Plan, SOURCE, Shape, Way, failed};
use super::cublas;
use super::format::E4M3;
use crate::dynlib;
use crate::suite::Unable;
use crate::system::GpuVendor;

const NVRTC: &[&str] = &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11", "libnvrtc.so"];

/// Newer drivers keep it for older programs; `cudarc`'s own choice is missing from older drivers.
type ElapsedTime = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> c_int;

pub(super) struct Cuda {
    about: About,
    /// Such as 90 for compute capability 9.0.
    capability: i32,
    context: CUcontext,
    queues: [CUstream; 2],
    /// Before all, after the second queue, after all.
    marks: [CUevent; 3],
    elapsed: ElapsedTime,
    kernels: Vec<CUfunction>,
}

// SAFETY: contexts, streams, events and functions may be used from any thread; each call makes the
// context current first.
unsafe impl Send for Cuda {}
// SAFETY: as above; the driver locks what it shares.
unsafe impl Sync for Cuda {}

fn done<T>(call: &str, result: Result<T, DriverError>) -> Done<T> {
    result.map_err(|error| {
        let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
        failed(call, name.unwrap_or_else(|_| format!("{:?}", error.0)))
    })
}

impl Cuda {
    /// Opens a GPU. The driver is loaded and initialised: [`dynlib::cuda`] was asked before.
    pub fn open(index: u32) -> Done<Self> {
        let gpu = done("cuDeviceGet", device::get(index as c_int))?;
        // SAFETY: the device is the driver's own. The context is the process's primary one, which
        // stays until the process ends.
        let context = done("cuDevicePrimaryCtxRetain", unsafe { primary_ctx::retain(gpu) })?;
        // SAFETY: the context was just made.
        done("cuCtxSetCurrent", unsafe { result::ctx::set_current(context) })?;
        let capability = capability(gpu)?;
        let queue = || done("cuStreamCreate", stream::create(stream::StreamKind::NonBlocking));
        let mark = || done("cuEventCreate", event::create(CUevent_flags::CU_EVENT_DEFAULT));
        Ok(Self {
            about: about(gpu, index, capability)?,
            capability,
            context,
            queues: [queue()?, queue()?],
            marks: [mark()?, mark()?, mark()?],
            elapsed: elapsed_time()?,
            kernels: Vec::new(),
        })
    }

    fn record(&self, mark: usize, queue: usize) -> Done {
        // SAFETY: both live until `self` is dropped.
        done("cuEventRecord", unsafe { event::record(self.marks[mark], self.queues[queue]) })
    }

    fn hold(&self, queue: usize, mark: usize) -> Done {
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both live until `self` is dropped.
        let result = unsafe { stream::wait_event(self.queues[queue], self.marks[mark], flags) };
        done("cuStreamWaitEvent", result)
    }
}

fn elapsed_time() -> Done<ElapsedTime> {
    // SAFETY: the library is there, and cuda.h declares the function so.
    let function = unsafe { sys::culib().get::<ElapsedTime>(b"cuEventElapsedTime") };
    function.map(|function| *function).map_err(|error| failed("cuEventElapsedTime", error))
}

fn attribute(gpu: c_int, attribute: Attribute) -> Done<c_int> {
    // SAFETY: the device is the driver's own.
    done("cuDeviceGetAttribute", unsafe { device::get_attribute(gpu, attribute) })
}

fn capability(gpu: c_int) -> Done<i32> {
    let major = attribute(gpu, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(gpu, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok(major * 10 + minor)
}

fn about(gpu: c_int, index: u32, capability: i32) -> Done<About> {
    let uuid = done("cuDeviceGetUuid", device::get_uuid(gpu))?;
    Ok(About {
        vendor: GpuVendor::Nvidia,
        index,
        name: done("cuDeviceGetName", device::get_name(gpu))?,
        uuid: super::uuid(&uuid.bytes.map(|byte| byte as u8)),
        pci: pci_address(gpu)?,
        tf32: capability >= 80,
        bf16: capability >= 80,
        fp8: (capability >= 89).then_some(E4M3),
    })
}

fn pci_address(gpu: c_int) -> Done<String> {
    let mut buffer = [0_u8; 32];
    // SAFETY: the buffer is as long as is said.
    let result =
        unsafe { sys::cuDeviceGetPCIBusId(buffer.as_mut_ptr().cast(), buffer.len() as c_int, gpu) };
    done("cuDeviceGetPCIBusId", result.result())?;
    Ok(super::text(&buffer).to_lowercase())
}

/// Machine code for this GPU alone: the driver need not know the compiler's intermediate language.
fn cubin(capability: i32) -> Done<Vec<u8>> {
    if let Err(fault) = dynlib::present(NVRTC) {
        return Err(Unable::Missing(format!(
            "NVRTC cannot be used ({fault}): install CUDA's libraries, or name their folder in \
             LD_LIBRARY_PATH"
        )));
    }
    let program = nvrtc::create_program(SOURCE, Some(c"kernels.cu"))
        .map_err(|error| failed("nvrtcCreateProgram", error))?;
    let options = [format!("--gpu-architecture=sm_{capability}")];
    // SAFETY: the program was just made and is destroyed below, after its last use.
    unsafe {
        let code = match nvrtc::compile_program(program, &options) {
            Ok(()) => code(program),
            Err(error) => Err(failed("nvrtcCompileProgram", format!("{error}: {}", log(program)))),
        };
        nvrtc_sys::nvrtcDestroyProgram(&mut { program });
        code
    }
}

/// # Safety
/// The program has been compiled.
unsafe fn code(program: nvrtc_sys::nvrtcProgram) -> Done<Vec<u8>> {
    let mut size = 0;
    // SAFETY: the caller's promise.
    unsafe { nvrtc_sys::nvrtcGetCUBINSize(program, &raw mut size) }
        .result()
        .map_err(|error| failed("nvrtcGetCUBINSize", error))?;
    let mut code = vec![0_u8; size];
    // SAFETY: the buffer is as long as NVRTC said.
    unsafe { nvrtc_sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast()) }
        .result()
        .map_err(|error| failed("nvrtcGetCUBIN", error))?;
    Ok(code)
}

/// # Safety
/// The program exists.
unsafe fn log(program: nvrtc_sys::nvrtcProgram) -> String {
    // SAFETY: the caller's promise.
    let log = unsafe { nvrtc::get_program_log(program) }.unwrap_or_default();
    super::text(&log.iter().map(|byte| *byte as u8).collect::<Vec<_>>())
}

impl Api for Cuda {
    fn about(&self) -> &About {
        &self.about
    }

    fn bind(&self) -> Done {
        // SAFETY: the primary context lives as long as the process.
        done("cuCtxSetCurrent", unsafe { result::ctx::set_current(self.context) })
    }

    fn compile(&mut self) -> Done {
        self.bind()?;
        let code = cubin(self.capability)?;
        // SAFETY: the image is whole, and the module is never unloaded.
        let module = done("cuModuleLoadData", unsafe { module::load_data(code.as_ptr().cast()) })?;
        self.kernels = KERNELS
            .iter()
            // SAFETY: the module was just loaded.
            .map(|name| unsafe { module::get_function(module, (*name).to_owned()) })
            .map(|function| done("cuModuleGetFunction", function))
            .collect::<Done<_>>()?;
        Ok(())
    }

    fn free_memory(&self) -> Done<usize> {
        self.bind()?;
        done("cuMemGetInfo", mem_get_info()).map(|(free, _)| free)
    }

    fn alloc(&self, bytes: usize) -> Done<u64> {
        self.bind()?;
        // SAFETY: nothing is read before it is written.
        done(&format!("cuMemAlloc of {bytes} bytes"), unsafe { malloc_sync(bytes) })
    }

    unsafe fn free(&self, address: u64) {
        if self.bind().is_ok() {
            // SAFETY: the caller's promise. A device that has failed has nothing left to free.
            let _ = unsafe { free_sync(address) };
        }
    }

    fn alloc_pinned(&self, bytes: usize) -> Done<u64> {
        self.bind()?;
        // SAFETY: nothing is read before it is written.
        let memory = unsafe { malloc_host(bytes, 0) };
        done(&format!("cuMemHostAlloc of {bytes} bytes"), memory).map(|memory| memory as u64)
    }

    unsafe fn free_pinned(&self, address: u64) {
        if self.bind().is_ok() {
            // SAFETY: the caller's promise.
            let _ = unsafe { free_host(address as *mut c_void) };
        }
    }

    unsafe fn copy(&self, queue: usize, way: Way, to: u64, from: u64, bytes: usize) -> Done {
        self.bind()?;
        let queue = self.queues[queue];
        // SAFETY: the caller's promise.
        let result = unsafe {
            match way {
                Way::ToDevice => {
                    sys::cuMemcpyHtoDAsync_v2(to, from as *const c_void, bytes, queue).result()
                }
                Way::ToHost => {
                    sys::cuMemcpyDtoHAsync_v2(to as *mut c_void, from, bytes, queue).result()
                }
                Way::Within => memcpy_dtod_async(to, from, bytes, queue),
            }
        };
        done("cuMemcpyAsync", result)
    }

    unsafe fn launch(&self, kernel: Kernel, blocks: u32, arguments: &mut [u64]) -> Done {
        self.bind()?;
        let function = self.kernels[kernel as usize];
        let mut places: Vec<*mut c_void> =
            arguments.iter_mut().map(|argument| ptr::from_mut(argument).cast()).collect();
        // SAFETY: the driver takes the arguments before it returns; the rest is the caller's promise.
        let result = unsafe {
            let (grid, block) = ((blocks, 1, 1), (BLOCK, 1, 1));
            result::launch_kernel(function, grid, block, 0, self.queues[0], &mut places)
        };
        done("cuLaunchKernel", result)
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
        // SAFETY: the marks live until `self` is dropped.
        done("cuEventSynchronize", unsafe { event::synchronize(self.marks[2]) })?;
        let mut milliseconds = 0.0;
        // SAFETY: both marks have been passed.
        let code = unsafe { (self.elapsed)(&raw mut milliseconds, self.marks[0], self.marks[2]) };
        if code != 0 {
            return Err(failed("cuEventElapsedTime", format!("error {code}")));
        }
        Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
    }

    fn wait(&self) -> Done {
        self.bind()?;
        for queue in self.queues {
            // SAFETY: the queues live until `self` is dropped.
            done("cuStreamSynchronize", unsafe { stream::synchronize(queue) })?;
        }
        Ok(())
    }

    unsafe fn plan(&self, shape: &Shape, workspace: u64) -> Done<Box<dyn Plan>> {
        self.bind()?;
        // SAFETY: the caller's promise; the queue lives as long as `self`.
        Ok(Box::new(unsafe { cublas::Multiplication::new(shape, self.queues[0], workspace) }?))
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if self.wait().is_err() {
            return;
        }
        // SAFETY: nothing is queued any more, and nobody else has these handles.
        unsafe {
            for mark in self.marks {
                let _ = event::destroy(mark);
            }
            for queue in self.queues {
                let _ = stream::destroy(queue);
            }
        }
    }
}
