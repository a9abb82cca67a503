//! The whole: control plane and nodes, up and ready.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::{Api, Client};

use crate::control::{self, ApiServer};
use crate::error::{Error, Tried};
use crate::image::Image;
use crate::kubeconfig::{self, User};
use crate::libtorch::Store;
use crate::node::{Node, Plan};
use crate::part::Part;
use crate::policies::Policies;
use crate::programs::Programs;
use crate::wait::{Seen, until};
use crate::{address, isolation, keys, network, stock};

/// How long nodes may take to be ready on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

pub struct Options {
    pub nodes: usize,
    /// What each node offers besides processors and memory.
    pub devices: Vec<(String, usize)>,
    /// Whether nodes hold libtorch's layer from the start.
    pub libtorch: bool,
    /// Whether `NetworkPolicy` objects count.
    pub policies: bool,
}

impl Default for Options {
    fn default() -> Self {
        let device = |name: &str, count| (name.to_owned(), count);
        let devices = vec![
            device("nvidia.com/gpu", 8),
            device("amd.com/gpu", 8),
            device("rdma/hca_shared_devices_a", 64),
        ];
        Self { nodes: 2, devices, libtorch: false, policies: false }
    }
}

pub struct Cluster {
    programs: Programs,
    folder: PathBuf,
    client: Client,
    api_server: ApiServer,
    nodes: Vec<Arc<Node>>,
    devices: Vec<(String, usize)>,
    libtorch: Option<Store>,
    _policies: Option<Policies>,
    _parts: Vec<Part>,
}

impl Cluster {
    /// Brings it up; only inside the namespaces that `isolation::run` makes.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let folder = isolation::folder();
        let folder = folder.ok_or_else(|| Error::Wrong("not in namespaces".to_owned()))?;
        let programs = Programs::find().map_err(Error::Wrong)?;
        network::bridge(&programs)?;
        credentials(&folder, options.nodes)?;
        let mut parts = vec![control::store(&programs, &folder)?];
        let api_server = ApiServer::start_new(&programs, &folder)?;
        let libtorch = options.libtorch.then(|| Store::ensure(&programs, &folder)).transpose()?;
        let nodes = (1..=options.nodes).map(|number| {
            let plan = Plan {
                programs: programs.clone(),
                cluster: folder.clone(),
                nodes: options.nodes,
                devices: options.devices.clone(),
                store: libtorch.clone(),
            };
            Node::new(plan, number).map(Arc::new)
        });
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let kubeconfig = folder.join("kubeconfig");
        // Nodes come up while the API server does.
        let pause = stock::pause(&folder)?;
        thread::scope(|scope| {
            let starting = each(scope, &nodes, |node| {
                node.start_runtime()?;
                node.import(&pause)?;
                node.start_kubelet()
            });
            all(starting)
        })?;
        network::services_via(&programs, 1)?;
        let client = kubeconfig::client(&kubeconfig).await?;
        api_server.answers(&client).await?;
        parts.extend(control::rest(&programs, &folder)?);
        let enforced = || Policies::enforce(client.clone(), nodes.clone(), &folder);
        let cluster = Self {
            _policies: options.policies.then(enforced),
            devices: options.devices,
            programs,
            client,
            api_server,
            nodes,
            libtorch,
            _parts: parts,
            folder,
        };
        for node in &cluster.nodes {
            cluster.ready(node).await?;
        }
        Ok(cluster)
    }

    /// Says who may do everything, and where.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Has everything of the cluster, also the logs of its parts.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Counted from 1, as their names are.
    pub fn node(&self, number: usize) -> &Node {
        &self.nodes[number - 1]
    }

    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub fn api_server(&self) -> &ApiServer {
        &self.api_server
    }

    /// libtorch's layer, where the nodes hold it.
    pub fn libtorch(&self) -> Option<&Store> {
        self.libtorch.as_ref()
    }

    /// Brings an image to every node.
    pub fn import(&self, image: &Image) -> Result<(), Error> {
        thread::scope(|scope| all(each(scope, &self.nodes, |node| node.import(image))))
    }

    /// Until a node takes pods and has all its devices, which come some time after it is ready.
    pub async fn ready(&self, node: &Node) -> Result<(), Error> {
        let name = node.name();
        self.until(&format!("{name} ready"), PATIENCE, async || {
            let object = self.look(&name).await?;
            if !is_ready(&object) {
                return Err(format!("{:?}", object.status.and_then(|status| status.conditions)));
            }
            let missing = self
                .devices
                .iter()
                .find(|(resource, count)| allocatable(&object, resource) != Some(*count as u64));
            match missing {
                Some((resource, _)) => Err(format!("not all of {resource}")),
                None => Ok(()),
            }
        })
        .await
    }

    /// Until the control plane has given a node up.
    pub async fn lost(&self, node: &Node) -> Result<(), Error> {
        let name = node.name();
        self.until(&format!("{name} not ready"), PATIENCE, async || {
            let object = self.look(&name).await?;
            if is_ready(&object) { Err("still ready".to_owned()) } else { Ok(()) }
        })
        .await
    }

    /// Until a node offers so many of a resource.
    pub async fn offers(&self, node: &Node, resource: &str, count: u64) -> Result<(), Error> {
        let what = format!("{count} of {resource} on {}", node.name());
        self.until(&what, PATIENCE, async || {
            match allocatable(&self.look(&node.name()).await?, resource) {
                Some(found) if found == count => Ok(()),
                found => Err(format!("{found:?}")),
            }
        })
        .await
    }

    /// Waits, and shows the ends of all logs if in vain.
    pub async fn until<T, F: Future<Output = Seen<T>>>(
        &self,
        what: &str,
        limit: Duration,
        look: impl FnMut() -> F,
    ) -> Result<T, Error> {
        until(what, limit, &self.folder, look).await
    }

    async fn look(&self, name: &str) -> Seen<NodeObject> {
        let nodes: Api<NodeObject> = Api::all(self.client());
        nodes.get(name).await.map_err(|error| error.to_string())
    }
}

type Joined<'scope> = thread::ScopedJoinHandle<'scope, Result<(), Error>>;

/// Does the same with all nodes at once.
fn each<'scope, 'env: 'scope>(
    scope: &'scope thread::Scope<'scope, 'env>,
    nodes: &'env [Arc<Node>],
    act: impl Fn(&Node) -> Result<(), Error> + Copy + Send + 'scope,
) -> Vec<Joined<'scope>> {
    nodes.iter().map(|node| scope.spawn(move || act(node))).collect()
}

/// Waits for all of them; the first error counts.
fn all(started: Vec<Joined>) -> Result<(), Error> {
    let panicked = |_| Error::Wrong("a thread panicked".to_owned());
    started.into_iter().try_for_each(|one| one.join().map_err(panicked)?)
}

/// Keys, tokens, and a kubeconfig for everybody.
fn credentials(folder: &Path, nodes: usize) -> Result<(), Error> {
    keys::write(folder, &[address::HOST])?;
    let node =
        |number: usize| User { name: format!("system:node:node{number}"), groups: "system:nodes" };
    let mut users = vec![
        ("kubeconfig".to_owned(), User::admin()),
        ("proxy.kubeconfig".to_owned(), User { name: "system:kube-proxy".to_owned(), groups: "" }),
    ];
    users.extend((1..=nodes).map(|number| (format!("node{number}.kubeconfig"), node(number))));
    let server = format!("https://{}:{}", address::HOST, address::API_PORT);
    let authority = folder.join("ca.crt");
    for (file, user) in &users {
        kubeconfig::write(&folder.join(file), &server, &authority, user)?;
    }
    let users: Vec<_> = users.into_iter().map(|(_, user)| user).collect();
    let path = folder.join("tokens.csv");
    fs::write(&path, kubeconfig::tokens(&users)).at("could not write", &path)
}

fn is_ready(node: &NodeObject) -> bool {
    let status = node.status.iter();
    let mut conditions = status.flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

fn allocatable(node: &NodeObject, resource: &str) -> Option<u64> {
    node.status.as_ref()?.allocatable.as_ref()?.get(resource)?.0.parse().ok()
}
