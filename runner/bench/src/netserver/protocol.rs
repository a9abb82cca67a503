//! What the two ends say to each other before bytes flow: a request of fixed length and its
//! answer, in little-endian numbers. Who says anything else is told so in words.

/// The form of requests, answers and reports.
pub const VERSION: u16 = 1;
/// Where the server listens unless told otherwise.
pub const PORT: u16 = 9465;

pub(super) const MAGIC: [u8; 8] = *b"WFnet\r\n\0";
pub(super) const REQUEST: usize = 24;
pub(super) const ANSWER: usize = 24;
pub(super) const REPORT: usize = 16;
/// The longest message that is sent back.
pub const LONGEST: u32 = 1 << 20;

/// For those who came to the wrong door.
pub(super) const STRANGER: &str = "warpforge netserver: this port speaks with `warpforge \
                                   benchmark run` only (micro/net_bandwidth, micro/net_latency)\n";

/// What the server does on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Keeps a session open.
    Session,
    /// Takes in bytes and reports how many.
    Sink,
    /// Sends bytes.
    Source,
    /// Sends back every message of so many bytes.
    Echo(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub version: u16,
    /// None for a role that this version does not have.
    pub role: Option<Role>,
    /// Zero for one that is to be opened.
    pub session: u64,
}

/// Whether a request is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Granted,
    OtherVersion,
    Busy,
    NoSession,
    Unknown,
}

const STATUSES: [Status; 5] =
    [Status::Granted, Status::OtherVersion, Status::Busy, Status::NoSession, Status::Unknown];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub version: u16,
    pub status: Status,
    pub session: u64,
}

/// How much has arrived, by the clock of where it arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub bytes: u64,
    pub nanoseconds: u64,
}

impl Role {
    fn code(self) -> (u8, u32) {
        match self {
            Self::Session => (0, 0),
            Self::Sink => (1, 0),
            Self::Source => (2, 0),
            Self::Echo(length) => (3, length),
        }
    }

    fn of(code: u8, length: u32) -> Option<Self> {
        match (code, length) {
            (0, 0) => Some(Self::Session),
            (1, 0) => Some(Self::Sink),
            (2, 0) => Some(Self::Source),
            (3, 1..=LONGEST) => Some(Self::Echo(length)),
            _ => None,
        }
    }
}

impl Request {
    pub fn new(role: Role, session: u64) -> Self {
        Self { version: VERSION, role: Some(role), session }
    }

    pub fn bytes(self) -> [u8; REQUEST] {
        let (code, length) = self.role.map_or((u8::MAX, 0), Role::code);
        let mut bytes = [0; REQUEST];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[10] = code;
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        bytes[16..].copy_from_slice(&self.session.to_le_bytes());
        bytes
    }

    /// None for what is no request at all.
    pub fn read(bytes: &[u8; REQUEST]) -> Option<Self> {
        let role = Role::of(bytes[10], number(&bytes[12..16]) as u32);
        let request =
            Self { version: number(&bytes[8..10]) as u16, role, session: number(&bytes[16..]) };
        bytes.starts_with(&MAGIC).then_some(request)
    }
}

impl Answer {
    pub fn bytes(self) -> [u8; ANSWER] {
        let code = STATUSES.iter().position(|status| *status == self.status);
        let mut bytes = [0; ANSWER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[10] = code.map_or(u8::MAX, |code| code as u8);
        bytes[16..].copy_from_slice(&self.session.to_le_bytes());
        bytes
    }

    /// None for what is no answer of this protocol.
    pub fn read(bytes: &[u8; ANSWER]) -> Option<Self> {
        // A newer server may refuse for reasons that are not known here.
        let status = STATUSES.get(usize::from(bytes[10])).copied().unwrap_or(Status::Unknown);
        let version = number(&bytes[8..10]) as u16;
        let answer = Self { version, status, session: number(&bytes[16..]) };
        bytes.starts_with(&MAGIC).then_some(answer)
    }
}

impl Report {
    pub(super) fn to_bytes(self) -> [u8; REPORT] {
        let mut bytes = [0; REPORT];
        bytes[..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..].copy_from_slice(&self.nanoseconds.to_le_bytes());
        bytes
    }

    pub(super) fn of(bytes: &[u8; REPORT]) -> Self {
        Self { bytes: number(&bytes[..8]), nanoseconds: number(&bytes[8..]) }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_wire() {
        for role in [Role::Session, Role::Sink, Role::Source, Role::Echo(64), Role::Echo(LONGEST)] {
            let request = Request::new(role, 0x0123_4567_89ab_cdef);
            assert_eq!(Request::read(&request.bytes()), Some(request));
        }
    }

    #[test]
    fn answers_and_reports_survive_the_wire() {
        for status in STATUSES {
            let answer = Answer { version: 7, status, session: u64::MAX - 1 };
            assert_eq!(Answer::read(&answer.bytes()), Some(answer));
        }
        let report = Report { bytes: 1 << 40, nanoseconds: 12_345 };
        assert_eq!(Report::of(&report.to_bytes()), report);
    }

    #[test]
    fn what_is_out_of_bounds_has_no_role() {
        for role in [Role::Echo(0), Role::Echo(LONGEST + 1)] {
            let read = Request::read(&Request::new(role, 1).bytes()).unwrap();
            assert_eq!(read.role, None);
        }
        let mut bytes = Request::new(Role::Sink, 1).bytes();
        bytes[10] = 9;
        assert_eq!(Request::read(&bytes).unwrap().role, None);
        bytes[0] = b'G';
        assert_eq!(Request::read(&bytes), None);
    }
}
