//! One node: namespaces of its own, containerd, a kubelet, the proxy for Services, and devices that
//! are not there. It can be cut off, frozen and lose its power.

mod config;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::command::run;
use crate::error::{Error, Tried};
use crate::image::Image;
use crate::libtorch::Store;
use crate::part::last_words;
use crate::programs::Programs;
use crate::{address, cgroups, network};

/// How long a step on the way up may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// By the shell's own: a program of that name is not on every machine.
const KILL: &str = "kill \"$1\" \"$2\"";

/// What runs on a node, in the order of starting.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Service {
    Runtime,
    Kubelet,
    Proxy,
    Devices,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Self::Runtime => "containerd",
            Self::Kubelet => "kubelet",
            Self::Proxy => "proxy",
            Self::Devices => "devices",
        }
    }
}

/// What a node is made of.
pub(crate) struct Plan {
    pub programs: Programs,
    /// The cluster's folder, with its keys and logs.
    pub cluster: PathBuf,
    pub nodes: usize,
    /// Resources and how many of each.
    pub devices: Vec<(String, usize)>,
    /// What it holds from the start.
    pub store: Option<Store>,
}

pub struct Node {
    plan: Plan,
    number: usize,
    folder: PathBuf,
    running: Mutex<Option<Running>>,
}

struct Running {
    /// Its end is that of all processes of the node.
    unshare: Child,
    init: Pid,
    /// By their numbers inside.
    services: Vec<(Service, u32)>,
}

impl Node {
    pub(crate) fn new(plan: Plan, number: usize) -> Result<Self, Error> {
        let folder = plan.cluster.join(format!("node{number}"));
        let places = config::Places { number, folder: &folder, cluster: &plan.cluster };
        config::write(&plan.programs, &places)?;
        if let Some(store) = &plan.store {
            store.copy_to(&folder.join("containerd"))?;
        }
        Ok(Self { plan, number, folder, running: Mutex::new(None) })
    }

    /// As the API server calls it.
    pub fn name(&self) -> String {
        format!("node{}", self.number)
    }

    /// Where others reach it.
    pub fn address(&self) -> String {
        address::node(self.number)
    }

    /// Tells one start from the next; nothing while it is off.
    pub(crate) fn started(&self) -> Option<Pid> {
        self.lock().as_ref().map(|running| running.init)
    }

    /// Switches it on: at first, or after a loss of power.
    pub fn start(&self) -> Result<(), Error> {
        self.start_runtime()?;
        self.start_kubelet()
    }

    /// Up to containerd, so that images can be brought before the first pod.
    pub(crate) fn start_runtime(&self) -> Result<(), Error> {
        cgroups::make(self.number)?;
        let log = self.log("init");
        let out = fs::File::create(&log).at("could not open", &log)?;
        let mut unshare = Command::new("unshare")
            .args(["--net", "--mount", "--pid", "--uts", "--ipc"])
            .args(["--fork", "--kill-child", "--mount-proc", "--", "sh"])
            .arg(self.folder.join("init.sh"))
            .arg(self.name())
            .arg(&self.folder)
            .arg(self.plan.programs.kubernetes())
            .stdin(Stdio::null())
            .stdout(out.try_clone().at("could not open", &log)?)
            .stderr(out)
            .spawn()
            .tried(|| "could not start unshare".to_owned())?;
        let init = self.settled(&mut unshare)?;
        let number = init.as_raw_nonzero().get().unsigned_abs();
        *self.lock() = Some(Running { unshare, init, services: Vec::new() });
        network::attach(&self.plan.programs, self.number, self.plan.nodes, number)?;
        self.start_service(Service::Runtime)?;
        let socket = self.socket();
        self.wait(Service::Runtime.name(), || UnixStream::connect(&socket).is_ok())
    }

    pub(crate) fn start_kubelet(&self) -> Result<(), Error> {
        self.start_service(Service::Kubelet)?;
        self.start_service(Service::Proxy)?;
        if !self.plan.devices.is_empty() {
            self.start_service(Service::Devices)?;
        }
        Ok(())
    }

    /// Takes its power away: every process is killed at once, and its memory is gone.
    pub fn crash(&self) -> Result<(), Error> {
        let Some(mut running) = self.lock().take() else { return Ok(()) };
        // The first process of a namespace takes all others with it.
        let _ = kill_process(running.init, Signal::KILL);
        running.unshare.wait().tried(|| format!("{} does not end", self.name()))?;
        cgroups::remove(self.number)
    }

    /// Stops the kubelet without ending it, as a machine that hangs does.
    pub fn freeze(&self) -> Result<(), Error> {
        self.signal(Service::Kubelet, "STOP")
    }

    pub fn thaw(&self) -> Result<(), Error> {
        self.signal(Service::Kubelet, "CONT")
    }

    /// Pulls its network cable.
    pub fn cut(&self) -> Result<(), Error> {
        network::plug(&self.plan.programs, self.number, false)
    }

    pub fn join(&self) -> Result<(), Error> {
        network::plug(&self.plan.programs, self.number, true)
    }

    /// Kills containerd. The containers run on.
    pub fn stop_container_runtime(&self) -> Result<(), Error> {
        self.end(Service::Runtime)
    }

    pub fn start_container_runtime(&self) -> Result<(), Error> {
        self.start_service(Service::Runtime)
    }

    /// Kills the kubelet, and starts it anew.
    pub fn restart_kubelet(&self) -> Result<(), Error> {
        self.end(Service::Kubelet)?;
        self.start_service(Service::Kubelet)
    }

    /// Breaks one device: `unhealthy("nvidia.com/gpu", "gpu-3")`.
    pub fn unhealthy(&self, resource: &str, device: &str) -> Result<(), Error> {
        let path = self.folder.join("broken");
        let text = fs::read_to_string(&path).at("could not read", &path)?;
        fs::write(&path, format!("{text}{resource} {device}\n")).at("could not write", &path)
    }

    /// Repairs all devices.
    pub fn repair(&self) -> Result<(), Error> {
        let path = self.folder.join("broken");
        fs::write(&path, "").at("could not write", &path)
    }

    /// Brings an image, as pulling it would.
    pub fn import(&self, image: &Image) -> Result<(), Error> {
        let mut ctr = self.ctr();
        ctr.args(["images", "import"]).arg(image.archive());
        run(&mut ctr).map(drop)
    }

    /// containerd's own client, with the images and containers that are Kubernetes'.
    pub fn ctr(&self) -> Command {
        let programs = &self.plan.programs;
        let mut ctr = programs.command(programs.bin("ctr"));
        ctr.arg("--address").arg(self.socket()).args(["--namespace", "k8s.io"]);
        ctr
    }

    /// Runs a command as the node's root would.
    pub fn exec(&self, arguments: &[&str]) -> Result<String, Error> {
        run(self.inside()?.args(arguments))
    }

    fn start_service(&self, service: Service) -> Result<(), Error> {
        // Behind the shell's back, so that the node's first process adopts and reaps it: a parent
        // outside would stop when it is stopped, and keep the namespace from ending.
        let script = "log=$1; shift; \"$@\" >> $log 2>&1 < /dev/null & echo $!";
        let mut enter = self.inside()?;
        enter.args(["sh", "-c", script, "sh"]).arg(self.log(service.name()));
        let told = run(enter.args(self.arguments(service)))?;
        let number = told.trim().parse();
        let number = number.map_err(|_| Error::Wrong(format!("no process number: {told}")))?;
        if let Some(running) = self.lock().as_mut() {
            running.services.retain(|(other, _)| *other != service);
            running.services.push((service, number));
        }
        Ok(())
    }

    fn arguments(&self, service: Service) -> Vec<String> {
        let programs = &self.plan.programs;
        let kubernetes = programs.kubernetes().display().to_string();
        let file = |name: &str| self.folder.join(name).display().to_string();
        let key = self.plan.cluster.join(format!("{}.kubeconfig", self.name()));
        match service {
            Service::Runtime => vec![
                programs.bin("containerd").display().to_string(),
                "--config".to_owned(),
                file("containerd.toml"),
            ],
            Service::Kubelet => vec![
                kubernetes,
                "kubelet".to_owned(),
                format!("--config={}", file("kubelet.yaml")),
                format!("--kubeconfig={}", key.display()),
                format!("--hostname-override={}", self.name()),
                format!("--node-ip={}", self.address()),
            ],
            Service::Proxy => {
                vec![kubernetes, "proxy".to_owned(), format!("--config={}", file("proxy.yaml"))]
            }
            Service::Devices => {
                let mut all = vec![kubernetes, "device-plugin".to_owned(), file("broken")];
                let devices = self.plan.devices.iter();
                all.extend(devices.map(|(resource, count)| format!("{resource}={count}")));
                all
            }
        }
    }

    fn end(&self, service: Service) -> Result<(), Error> {
        self.signal(service, "KILL")?;
        let number = self.service(service)?.to_string();
        self.wait("the end of a service", || {
            self.exec(&["sh", "-c", KILL, "sh", "-0", &number]).is_err()
        })
    }

    fn signal(&self, service: Service, signal: &str) -> Result<(), Error> {
        let number = self.service(service)?.to_string();
        self.exec(&["sh", "-c", KILL, "sh", &format!("-{signal}"), &number]).map(drop)
    }

    fn service(&self, service: Service) -> Result<u32, Error> {
        let running = self.lock();
        let mut services = running.iter().flat_map(|running| &running.services);
        let found = services.find(|(one, _)| *one == service).map(|(_, number)| *number);
        found.ok_or_else(|| Error::Wrong(format!("{} runs no {}", self.name(), service.name())))
    }

    /// A command in the node's namespaces.
    fn inside(&self) -> Result<Command, Error> {
        let init = self.started();
        let init = init.ok_or_else(|| Error::Wrong(format!("{} is off", self.name())))?;
        let mut enter = self.plan.programs.command("nsenter");
        let target = init.as_raw_nonzero().to_string();
        enter.args(["-m", "-u", "-i", "-n", "-p", "-t", &target, "--"]);
        Ok(enter)
    }

    /// Waits until the node's first process has done its part; gives its number out here.
    fn settled(&self, unshare: &mut Child) -> Result<Pid, Error> {
        let mut found = None;
        self.wait("the node's first process", || {
            found = child_of(unshare.id()).filter(|&child| {
                let path = format!("/proc/{}/cmdline", child.as_raw_nonzero());
                fs::read(path).is_ok_and(|line| line.ends_with(b"\0pause\0"))
            });
            found.is_some() || unshare.try_wait().is_ok_and(|ended| ended.is_some())
        })?;
        found.ok_or_else(|| Error::Wrong(last_words(&self.log("init"))))
    }

    fn wait(&self, what: &str, mut done: impl FnMut() -> bool) -> Result<(), Error> {
        let start = Instant::now();
        while !done() {
            if start.elapsed() > PATIENCE {
                return Err(Error::Late {
                    what: format!("{what} on {}", self.name()),
                    limit: PATIENCE,
                    last: "nothing".to_owned(),
                    logs: crate::part::all_last_words(&self.plan.cluster),
                });
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("containerd.sock")
    }

    fn log(&self, service: &str) -> PathBuf {
        self.plan.cluster.join(format!("{}-{service}.log", self.name()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The child of a process that has one.
fn child_of(parent: u32) -> Option<Pid> {
    let parent = parent.to_string();
    let numbers = fs::read_dir("/proc").ok()?.flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |number: &i32| {
        let status = fs::read_to_string(Path::new("/proc").join(number.to_string()).join("status"));
        let status = status.unwrap_or_default();
        let mut lines = status.lines();
        lines.any(|line| line.strip_prefix("PPid:").is_some_and(|of| of.trim() == parent))
    };
    numbers.into_iter().find(is_child).and_then(Pid::from_raw)
}
