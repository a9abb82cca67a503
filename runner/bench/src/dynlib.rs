//! Calls into vendor libraries that are looked for at run time: the CUDA driver, HIP, libibverbs,
//! UCX, libtorch and the C library. What leaves this module is plain owned data, or a [`Library`]
//! for those who call more of it. A library once opened stays open until the process ends, because GPU
//! drivers start threads and register exit handlers that must not be unmapped.

#![expect(unsafe_code, reason = "loading foreign libraries and calling them is unsafe by nature")]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;

use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW, Symbol};

/// Why a library gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{0} not found")]
    Absent(String),
    #[error("{library} cannot be loaded: {reason}")]
    Unloadable { library: String, reason: String },
    #[error("{call} failed: {reason}")]
    Failed { call: &'static str, reason: String },
}

/// What the CUDA driver or HIP says of itself.
pub(crate) struct Driver {
    /// CUDA: 1000 × major + 10 × minor. HIP: 10000000 × major + 100000 × minor + patch.
    pub version: c_int,
    pub devices: Vec<String>,
}

/// A library that was found.
pub(crate) struct Library {
    handle: ManuallyDrop<Handle>,
    name: String,
}

impl Library {
    fn open(name: &OsStr) -> Result<Self, Fault> {
        let shown = name.to_string_lossy().into_owned();
        // SAFETY: this runs the initialisers of a library that the administrator installed under
        // this name; they expect nothing but an ordinary process.
        match unsafe { Handle::open(Some(name), RTLD_NOW | RTLD_LOCAL) } {
            Ok(handle) => Ok(Self { handle: ManuallyDrop::new(handle), name: shown }),
            Err(error) => Err(load_fault(shown, &error)),
        }
    }

    /// The first of several spellings that exists; a present but broken one ends the search.
    pub(crate) fn open_any(names: &[&str]) -> Result<Self, Fault> {
        let mut result = Err(Fault::Absent(names.first().copied().unwrap_or_default().to_owned()));
        for name in names {
            match Self::open(name.as_ref()) {
                Err(Fault::Absent(_)) => {}
                found => {
                    result = found;
                    break;
                }
            }
        }
        result
    }

    /// # Safety
    /// `T` must be the C function type that `name` has in this library.
    pub(crate) unsafe fn function<T>(&self, name: &'static str) -> Result<Symbol<T>, Fault> {
        // SAFETY: the caller vouches for the type.
        unsafe { self.handle.get(name.as_bytes()) }
            .map_err(|_| Fault::Failed { call: name, reason: format!("not in {}", self.name) })
    }
}

fn load_fault(library: String, error: &libloading::Error) -> Fault {
    // libloading prints `dlopen failed`; the reason itself is the source's text.
    let reason = std::error::Error::source(error).unwrap_or(error).to_string();
    if reason.starts_with(&format!("{library}: cannot open shared object file: No such file")) {
        Fault::Absent(library)
    } else {
        Fault::Unloadable { library, reason }
    }
}

/// # Safety
/// `text` must be null or a NUL-terminated string that outlives the call.
unsafe fn owned(text: *const c_char) -> Option<String> {
    // SAFETY: checked for null here; the rest is the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Runs `fill` on a zeroed buffer and reads the C string it left there.
fn filled_string<E>(fill: impl FnOnce(*mut c_char, c_int) -> Result<(), E>) -> Result<String, E> {
    let mut buffer = [0_u8; 256];
    fill(buffer.as_mut_ptr().cast(), buffer.len() as c_int)?;
    let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}

type Init = extern "C" fn(c_uint) -> c_int;
type GetInt = extern "C" fn(*mut c_int) -> c_int;
type GetDevice = extern "C" fn(*mut c_int, c_int) -> c_int;
type GetName = extern "C" fn(*mut c_char, c_int, c_int) -> c_int;

/// The calls that the CUDA driver and HIP share, under the names one of them gives them.
struct Calls {
    init: &'static str,
    version: &'static str,
    count: &'static str,
    device: &'static str,
    name: &'static str,
}

fn drive(
    library: &Library,
    calls: &Calls,
    explain: impl Fn(c_int) -> String,
) -> Result<Driver, Fault> {
    // SAFETY: cuda.h and hip_runtime_api.h declare these functions with exactly these types
    // (CUdevice, hipDevice_t and both error enums are ints).
    let (init, version, count, device, name) = unsafe {
        (
            library.function::<Init>(calls.init)?,
            library.function::<GetInt>(calls.version)?,
            library.function::<GetInt>(calls.count)?,
            library.function::<GetDevice>(calls.device)?,
            library.function::<GetName>(calls.name)?,
        )
    };
    let check = |call, code| match code {
        0 => Ok(()),
        _ => Err(Fault::Failed { call, reason: explain(code) }),
    };
    let int = |call, get: &dyn Fn(&mut c_int) -> c_int| {
        let mut value = 0;
        check(call, get(&mut value)).map(|()| value)
    };
    check(calls.init, init(0))?;
    let version = int(calls.version, &|v| version(v))?;
    let devices = (0..int(calls.count, &|v| count(v))?)
        .map(|index| {
            let handle = int(calls.device, &|v| device(v, index))?;
            filled_string(|buffer, size| check(calls.name, name(buffer, size, handle)))
        })
        .collect::<Result<_, _>>()?;
    Ok(Driver { version, devices })
}

/// Initialises the CUDA driver and names its devices. No context is made: that would take memory
/// on a GPU that may be in the middle of someone's measurement.
pub(crate) fn cuda() -> Result<Driver, Fault> {
    type GetErrorName = extern "C" fn(c_int, *mut *const c_char) -> c_int;
    let library = Library::open("libcuda.so.1".as_ref())?;
    // SAFETY: cuda.h declares it so.
    let error_name = unsafe { library.function::<GetErrorName>("cuGetErrorName") }?;
    let explain = |code| {
        let mut text = ptr::null();
        error_name(code, &raw mut text);
        // SAFETY: the driver leaves null or a pointer to a string constant of its own.
        let name = unsafe { owned(text) };
        name.map_or_else(|| format!("error {code}"), |name| format!("{name} ({code})"))
    };
    let calls = Calls {
        init: "cuInit",
        version: "cuDriverGetVersion",
        count: "cuDeviceGetCount",
        device: "cuDeviceGet",
        name: "cuDeviceGetName",
    };
    drive(&library, &calls, explain)
}

/// The HIP runtime's names.
pub(crate) const HIP: &[&str] =
    &["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "/opt/rocm/lib/libamdhip64.so"];

/// Initialises HIP and names its devices.
pub(crate) fn hip() -> Result<Driver, Fault> {
    type GetErrorString = extern "C" fn(c_int) -> *const c_char;
    let library = Library::open_any(HIP)?;
    // SAFETY: hip_runtime_api.h declares it so.
    let error_string = unsafe { library.function::<GetErrorString>("hipGetErrorString") }?;
    let explain = |code| {
        // SAFETY: HIP returns a string constant of its own.
        let text = unsafe { owned(error_string(code)) };
        text.map_or_else(|| format!("error {code}"), |text| format!("{text} ({code})"))
    };
    let calls = Calls {
        init: "hipInit",
        version: "hipRuntimeGetVersion",
        count: "hipGetDeviceCount",
        device: "hipDeviceGet",
        name: "hipDeviceGetName",
    };
    drive(&library, &calls, explain)
}

/// Whether a library can be loaded under one of its names. It stays loaded, so that whoever asks for
/// it next, by the name it calls itself, gets the same.
pub(crate) fn present(names: &[&str]) -> Result<(), Fault> {
    Library::open_any(names).map(drop)
}

/// Opens every RDMA device through libibverbs and names those that opened.
pub(crate) fn verbs() -> Result<Vec<String>, Fault> {
    type List = extern "C" fn(*mut c_int) -> *mut *mut c_void;
    type Name = extern "C" fn(*mut c_void) -> *const c_char;
    type Open = extern "C" fn(*mut c_void) -> *mut c_void;
    type Close = extern "C" fn(*mut c_void) -> c_int;
    type Free = extern "C" fn(*mut *mut c_void);
    let library = Library::open("libibverbs.so.1".as_ref())?;
    // SAFETY: verbs.h declares these functions so, with pointers to structs that stay opaque here.
    let (list, name, open, close, free) = unsafe {
        (
            library.function::<List>("ibv_get_device_list")?,
            library.function::<Name>("ibv_get_device_name")?,
            library.function::<Open>("ibv_open_device")?,
            library.function::<Close>("ibv_close_device")?,
            library.function::<Free>("ibv_free_device_list")?,
        )
    };
    let mut count = 0;
    let devices = list(&raw mut count);
    if devices.is_null() {
        let reason = std::io::Error::last_os_error().to_string();
        return Err(Fault::Failed { call: "ibv_get_device_list", reason });
    }
    let mut opened = Vec::new();
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list holds `count` device pointers until it is freed below.
        let device = unsafe { *devices.add(index) };
        let context = open(device);
        if !context.is_null() {
            // SAFETY: the name is part of the device, which lives as long as the list.
            opened.extend(unsafe { owned(name(device)) });
            close(context);
        }
    }
    free(devices);
    Ok(opened)
}

/// UCX's version as its library states it.
pub(crate) fn ucx_version() -> Result<String, Fault> {
    type GetVersion = extern "C" fn(*mut c_uint, *mut c_uint, *mut c_uint);
    let library = Library::open("libucp.so.0".as_ref())?;
    // SAFETY: ucp.h declares it so.
    let get = unsafe { library.function::<GetVersion>("ucp_get_version") }?;
    let (mut major, mut minor, mut release) = (0, 0, 0);
    get(&raw mut major, &raw mut minor, &raw mut release);
    Ok(format!("{major}.{minor}.{release}"))
}

/// The GNU C library's version; absent on other C libraries.
pub(crate) fn glibc_version() -> Option<String> {
    type GetVersion = extern "C" fn() -> *const c_char;
    let library = Library::open("libc.so.6".as_ref()).ok()?;
    // SAFETY: gnu/libc-version.h declares it so.
    let get = unsafe { library.function::<GetVersion>("gnu_get_libc_version") }.ok()?;
    // SAFETY: it returns a string constant.
    unsafe { owned(get()) }
}

/// Loads libtorch with all its symbols bound, which proves that everything it needs is there, and
/// asks for its release. The C call that tells it is younger than libtorch; where it is not
/// exported the release is absent.
pub(crate) fn torch_release(path: &Path) -> Result<Option<String>, Fault> {
    type GetVersion = extern "C" fn() -> u64;
    let library = Library::open(path.as_os_str())?;
    // SAFETY: torch/csrc/inductor/aoti_torch/c/shim.h declares it so.
    let get = unsafe { library.function::<GetVersion>("aoti_torch_abi_version") };
    Ok(get.ok().map(|get| {
        let [major, minor, patch, ..] = get().to_be_bytes();
        format!("{major}.{minor}.{patch}")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_installed_is_named() {
        let absent = Fault::Absent("libno-such-thing.so.9".into());
        assert_eq!(Library::open("libno-such-thing.so.9".as_ref()).err(), Some(absent.clone()));
        let any = Library::open_any(&["libno-such-thing.so.9", "libno-such-thing.so"]);
        assert_eq!(any.err(), Some(absent));
    }

    #[test]
    fn a_function_that_is_not_there_is_named() {
        let library = Library::open("libc.so.6".as_ref()).expect("the C library");
        // SAFETY: the function does not exist, so it cannot be called with a wrong type.
        let fault = unsafe { library.function::<Init>("no_such_function") }.err();
        let reason = "not in libc.so.6".into();
        assert_eq!(fault, Some(Fault::Failed { call: "no_such_function", reason }));
    }

    /// What is asked is a real library where it is installed, and must be named where it is not.
    #[test]
    fn libraries_of_the_network_answer_or_are_named() {
        let known = fs_names("/sys/class/infiniband");
        match verbs() {
            Ok(opened) => assert!(opened.iter().all(|name| known.contains(name)), "{opened:?}"),
            Err(Fault::Failed { call, .. }) => assert_eq!(call, "ibv_get_device_list"),
            Err(fault) => assert_eq!(fault, Fault::Absent("libibverbs.so.1".into())),
        }
        match ucx_version() {
            Ok(version) => assert_eq!(version.split('.').count(), 3, "{version}"),
            Err(fault) => assert_eq!(fault, Fault::Absent("libucp.so.0".into())),
        }
    }

    fn fs_names(directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}
