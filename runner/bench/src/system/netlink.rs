//! IP addresses by rtnetlink: no file of `/proc` says which interface has which IPv4 address.

use std::net::IpAddr;
use std::time::Duration;

use rustix::io;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket, sockopt};

use super::network::Address;

const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;

/// All addresses of this network namespace; empty where the kernel does not say.
pub(super) fn addresses() -> Vec<Address> {
    dump().unwrap_or_default()
}

fn dump() -> io::Result<Vec<Address>> {
    // Netlink's default protocol is the routing one.
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_millis(200)))?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut found = Vec::new();
    let mut buffer = vec![0_u8; 32 << 10];
    loop {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        if length == 0 || !parse(&buffer[..length], &mut found) {
            return Ok(found);
        }
    }
}

fn request() -> Vec<u8> {
    let length = (HEADER + ADDRESS_HEADER) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(RTM_GETADDR.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    // Sequence and port are zero: one question, one answer, on a socket of our own.
    message.resize(length as usize, 0);
    message
}

/// Reads the address messages of one datagram; false once the last message has been seen.
fn parse(mut datagram: &[u8], found: &mut Vec<Address>) -> bool {
    while datagram.len() >= HEADER {
        let length = u32_at(datagram, 0) as usize;
        if u16_at(datagram, 4) != RTM_NEWADDR || !(HEADER..=datagram.len()).contains(&length) {
            return false;
        }
        found.extend(address(&datagram[HEADER..length]));
        datagram = &datagram[aligned(length).min(datagram.len())..];
    }
    true
}

/// One `ifaddrmsg` with its attributes. On a point-to-point link `IFA_ADDRESS` is the peer's and
/// `IFA_LOCAL` our own.
fn address(message: &[u8]) -> Option<Address> {
    let (header, mut attributes) = message.split_at_checked(ADDRESS_HEADER)?;
    let (mut local, mut general) = (None, None);
    while attributes.len() >= 4 {
        let length = u16_at(attributes, 0) as usize;
        let value = ip(header[0], attributes.get(4..length)?);
        match u16_at(attributes, 2) {
            IFA_LOCAL => local = value,
            IFA_ADDRESS => general = value,
            _ => {}
        }
        attributes = &attributes[aligned(length).min(attributes.len())..];
    }
    Some(Address { interface: u32_at(header, 4), ip: local.or(general)?, prefix: header[1] })
}

fn ip(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        AF_INET6 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + payload.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(payload);
        bytes
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes
    }

    #[test]
    fn a_point_to_point_address_is_our_own_not_the_peers() {
        let mut payload = vec![AF_INET, 24, 0, 0];
        payload.extend(7_u32.to_ne_bytes());
        payload.extend(attribute(IFA_ADDRESS, &[10, 0, 0, 1]));
        payload.extend(attribute(IFA_LOCAL, &[10, 0, 0, 5]));
        let mut datagram = message(RTM_NEWADDR, &payload);
        datagram.extend(message(3, &[0; 4]));
        let mut found = Vec::new();
        assert!(!parse(&datagram, &mut found), "the end message ends the dump");
        let ip = IpAddr::from([10, 0, 0, 5]);
        assert_eq!(found, [Address { interface: 7, ip, prefix: 24 }]);
    }

    #[test]
    fn a_torn_message_is_no_panic() {
        let whole = message(RTM_NEWADDR, &[AF_INET, 24, 0, 0, 1, 0, 0, 0, 8, 0, 2, 0, 10, 0, 0, 5]);
        for length in 0..whole.len() {
            parse(&whole[..length], &mut Vec::new());
        }
        let mut lying = whole;
        lying[24] = 0;
        parse(&lying, &mut Vec::new());
    }
}
