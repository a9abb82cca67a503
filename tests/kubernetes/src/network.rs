//! The cluster's network: one bridge, a cable from it to every node, and routes to the pods behind
//! each. All of it lies in the test's own namespace.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::address;
use crate::command::run;
use crate::error::{Error, Tried};
use crate::programs::Programs;

/// Lets packets pass on: of the namespace of whoever writes it.
const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";

/// Lays the bridge. It and the nodes have fixed addresses below the network's too: they would
/// change with every node that comes or goes, and others remember the old ones for a while.
pub fn bridge(programs: &Programs) -> Result<(), Error> {
    let (bridge, net) = (address::BRIDGE, address::HOST_NET);
    let lines = format!(
        "link set lo up\nlink add {bridge} address 02:00:00:00:00:01 type bridge\naddr add {net} dev {bridge}\n\
         link set {bridge} up\n"
    );
    batch(programs.command(programs.bin("ip")), &lines)?;
    fs::write(FORWARD, "1").tried(|| "could not forward packets".to_owned())
}

/// Lays the cable to a node, given by its first process, and tells it the way to all others.
pub fn attach(programs: &Programs, number: usize, nodes: usize, init: u32) -> Result<(), Error> {
    let (bridge, host) = (address::BRIDGE, address::HOST);
    let (own, pods) = (address::node(number), address::pods(number));
    let cable = cable(number);
    let outside = format!(
        "link add {cable} type veth peer name eth0 address 02:00:00:00:01:{number:02x} netns {init}\n\
         link set {cable} master {bridge} up\nroute replace {pods} via {own}\n"
    );
    batch(programs.command(programs.bin("ip")), &outside)?;
    let others = (1..=nodes).filter(|&other| other != number);
    let routes: Vec<_> = others
        .map(|other| format!("route replace {} via {}", address::pods(other), address::node(other)))
        .collect();
    let inside = format!(
        "link set lo up\naddr add {own}/24 dev eth0\nlink set eth0 up\n\
         route add default via {host}\n{}\n",
        routes.join("\n")
    );
    let mut enter = programs.command("nsenter");
    enter.args(["-n", "-t", &init.to_string(), "ip"]);
    batch(enter, &inside)?;
    let script = format!("echo 1 > {FORWARD}");
    run(Command::new("nsenter").args(["-n", "-t", &init.to_string(), "sh", "-c", &script]))?;
    Ok(())
}

/// Sends what is for a Service to a node, whose proxy knows where it goes.
pub fn services_via(programs: &Programs, number: usize) -> Result<(), Error> {
    let line = format!("route replace {} via {}\n", address::SERVICES, address::node(number));
    batch(programs.command(programs.bin("ip")), &line)
}

/// Pulls a node's cable, or plugs it in.
pub fn plug(programs: &Programs, number: usize, plugged: bool) -> Result<(), Error> {
    let state = if plugged { "up" } else { "down" };
    batch(programs.command(programs.bin("ip")), &format!("link set {} {state}\n", cable(number)))
}

fn cable(number: usize) -> String {
    format!("cable{number}")
}

/// Gives `ip` its commands, one to a line.
fn batch(mut ip: Command, lines: &str) -> Result<(), Error> {
    let refused = || "could not start ip".to_owned();
    ip.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = ip.spawn().tried(refused)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(lines.as_bytes()).tried(refused)?;
    }
    let output = child.wait_with_output().tried(refused)?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Command {
        program: format!("ip: {lines}"),
        status: output.status.to_string(),
        said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
