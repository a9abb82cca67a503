//! Who takes part in a collective: channels, replica groups, and how they split the grid.

use super::Check;
use crate::eval::parallel::{Meeting, Parcel, Process};
use crate::eval::{Cx, EvalError, EvalResult};
use crate::ir::{Attr, AttrValue, Buffer, DType, Dict, Literal, TensorTy, lookup};

/// A channel's number and what stands at its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelHandle {
    pub handle: i64,
    /// 1 from device to device, 2 from device to host, 3 from host to device.
    pub kind: i64,
}

impl ChannelHandle {
    const KIND: &'static str = "stablehlo.channel_handle";
}

impl AttrValue for ChannelHandle {
    const EXPECTED: &'static str = "#stablehlo.channel_handle<handle = …, type = …>";

    fn from_attr(attr: &Attr) -> Option<Self> {
        let Attr::Struct(kind, dict) = attr else { return None };
        let field = |name| lookup(dict, name).map_or(Some(0), i64::from_attr);
        (&**kind == Self::KIND).then_some(Self { handle: field("handle")?, kind: field("type")? })
    }

    fn to_attr(&self) -> Attr {
        let int = |value: i64| Attr::Int(i128::from(value), None);
        let fields = [("handle", int(self.handle)), ("type", int(self.kind))];
        Attr::Struct(Self::KIND.into(), fields.map(|(name, attr)| (name.into(), attr)).into())
    }
}

/// Rows of ids: a constant of rank 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    pub count: usize,
    pub width: usize,
    ids: Vec<i64>,
}

impl Rows {
    pub fn iter(&self) -> impl Iterator<Item = &[i64]> {
        (0..self.count).map(|row| &self.ids[row * self.width..(row + 1) * self.width])
    }

    fn column(&self, i: usize) -> Vec<i64> {
        self.iter().filter_map(|row| row.get(i).copied()).collect()
    }

    /// The constraints on pairs of a sender and a receiver.
    pub fn check_pairs(&self, c: &mut Check<'_>) {
        c.require(self.width == 2, "C1", || {
            format!("source_target_pairs has rows of {}, not of 2", self.width)
        });
        c.unique("the first column of source_target_pairs", &self.column(0), "C2");
        c.unique("the second column of source_target_pairs", &self.column(1), "C3");
        let negative = self.ids.iter().find(|id| **id < 0);
        c.require(negative.is_none(), "C4", || {
            format!("source_target_pairs holds {}", negative.copied().unwrap_or(0))
        });
    }
}

impl AttrValue for Rows {
    const EXPECTED: &'static str = "a constant of rank 2 such as dense<[[0, 1]]> : tensor<1x2xi64>";

    fn from_attr(attr: &Attr) -> Option<Self> {
        let Attr::Dense(literal) = attr else { return None };
        let [count, width] = literal.ty.dims[..] else { return None };
        let ids = literal.ints()?;
        Some(Self { count: count as usize, width: width as usize, ids })
    }

    fn to_attr(&self) -> Attr {
        let ty = TensorTy::new([self.count as i64, self.width as i64], DType::S64);
        let data = Buffer::from_slice(&self.ids);
        Attr::Dense(Literal { ty, data, splat: false }.into())
    }
}

/// The groups of a collective: lists of ids, or axes of a mesh.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplicaGroups {
    Ids(Rows),
    /// Spelled out as ids where the mesh is written inline, with the attribute itself.
    Mesh(Option<Rows>, Attr),
}

impl AttrValue for ReplicaGroups {
    const EXPECTED: &'static str =
        "lists of ids such as dense<[[0, 1]]> : tensor<1x2xi64>, or axes of a mesh";

    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Struct(kind, dict) if &**kind == "stablehlo.replica_group_mesh_axes" => {
                let rows = match lookup(dict, "mesh")? {
                    Attr::Symbol(_) => None,
                    _ => Some(mesh_rows(dict)?),
                };
                Some(ReplicaGroups::Mesh(rows, attr.clone()))
            }
            _ => Rows::from_attr(attr).map(ReplicaGroups::Ids),
        }
    }

    fn to_attr(&self) -> Attr {
        match self {
            ReplicaGroups::Ids(rows) => rows.to_attr(),
            ReplicaGroups::Mesh(_, attr) => attr.clone(),
        }
    }
}

fn field<T: AttrValue>(attr: &Attr, kind: &str, name: &str) -> Option<T> {
    match attr {
        Attr::Struct(found, dict) if &**found == kind => T::from_attr(lookup(dict, name)?),
        _ => None,
    }
}

/// The digits of a mesh's device number that one (sub-)axis covers: its size and its stride.
type Digit = (i64, i64);

/// Groups from the axes of an inline mesh: devices that differ along the named axes only.
fn mesh_rows(dict: &Dict) -> Option<Rows> {
    const MOST: i64 = 1 << 20;
    let mesh = lookup(dict, "mesh")?;
    let axes: Vec<Attr> = field(mesh, "stablehlo.mesh", "axes")?;
    let mut table: Vec<(Box<str>, i64, i64)> = Vec::new();
    let mut total = 1i64;
    for axis in axes.iter().rev() {
        let size: i64 = field(axis, "stablehlo.mesh_axis", "size")?;
        table.push((field(axis, "stablehlo.mesh_axis", "name")?, size, total));
        total = total.checked_mul(size).filter(|total| (1..=MOST).contains(total))?;
    }
    let mut digits: Vec<Digit> = Vec::new();
    for axis in Vec::<Attr>::from_attr(lookup(dict, "axes")?)? {
        let name: Box<str> = field(&axis, "stablehlo.axis_ref", "name")?;
        let (_, size, stride) = table.iter().find(|(other, ..)| *other == name)?;
        digits.push(match field::<Attr>(&axis, "stablehlo.axis_ref", "sub_axis_info") {
            Some(sub) => sub_axis(&sub, *size, *stride)?,
            None => (*size, *stride),
        });
    }
    let ids: Option<Box<[i64]>> = match field::<Attr>(mesh, "stablehlo.mesh", "device_ids") {
        Some(ids) => Some(AttrValue::from_attr(&ids)?),
        None => None,
    };
    group_devices(total, &digits, ids.as_deref())
}

/// `(pre_size)size`: the axis is cut into `pre_size` × `size` × the rest.
fn sub_axis(attr: &Attr, axis: i64, stride: i64) -> Option<Digit> {
    let Attr::Opaque(text) = attr else { return None };
    let (pre, size) = text.strip_prefix('(')?.split_once(')')?;
    let (pre, size): (i64, i64) = (pre.trim().parse().ok()?, size.trim().parse().ok()?);
    let cut = pre.checked_mul(size).filter(|cut| *cut > 0 && axis % cut == 0)?;
    Some((size, stride * (axis / cut)))
}

fn group_devices(total: i64, digits: &[Digit], ids: Option<&[i64]>) -> Option<Rows> {
    let own = |device: i64, (size, stride): &Digit| device / stride % size;
    // The place within a group, the first axis being the slowest.
    let place = |device| digits.iter().fold(0, |at, digit| at * digit.0 + own(device, digit));
    let rest = |device| digits.iter().fold(device, |d, digit| d - own(device, digit) * digit.1);
    let mut devices: Vec<i64> = (0..total).collect();
    devices.sort_by_key(|device| (rest(*device), place(*device)));
    let width = digits.iter().map(|digit| digit.0).product::<i64>() as usize;
    let count = total as usize / width.max(1);
    let named = |device: i64| ids.map_or(Some(device), |ids| ids.get(device as usize).copied());
    let ids: Vec<i64> = devices.into_iter().map(named).collect::<Option<_>>()?;
    (ids.len() == count * width).then_some(Rows { count, width, ids })
}

impl ReplicaGroups {
    fn rows(&self) -> Option<&Rows> {
        match self {
            ReplicaGroups::Ids(rows) => Some(rows),
            ReplicaGroups::Mesh(rows, _) => rows.as_ref(),
        }
    }

    /// The size of each group, where it is known and not "everybody".
    pub fn width(&self) -> Option<i64> {
        self.rows().map(|rows| rows.width as i64).filter(|width| *width > 0)
    }

    /// Ids are unique; where `dense`, they are exactly the numbers below their count.
    pub fn check(&self, c: &mut Check<'_>, unique: &str, range: &str, dense: bool) {
        let Some(rows) = self.rows() else { return };
        let ids: Vec<i64> = rows.ids.iter().copied().filter(|id| *id != -1).collect();
        c.unique("replica_groups", &ids, unique);
        let most = if dense { ids.len() as i64 } else { i64::MAX };
        let off = ids.iter().find(|id| !(0..most).contains(*id)).copied();
        c.require(off.is_none(), range, || {
            format!("replica_groups holds {}, of {} ids", off.unwrap_or(0), ids.len())
        });
    }

    /// The lists of ids, with "nobody" standing for one group of everybody.
    fn lists(&self, all: usize) -> Result<Vec<Vec<usize>>, String> {
        let Some(rows) = self.rows() else {
            return Err("a mesh must be written inline, not as a symbol".into());
        };
        if rows.ids.is_empty() {
            return Ok(vec![(0..all).collect()]);
        }
        let member = |id: &i64| match usize::try_from(*id) {
            Ok(id) if id < all => Ok(id),
            _ => Err(format!("replica_groups holds {id}, but there are only {all} of them")),
        };
        // Groups of different sizes are filled up with -1.
        rows.iter().map(|row| row.iter().filter(|id| **id != -1).map(member).collect()).collect()
    }
}

/// How ids become processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    CrossReplica,
    CrossPartition,
    CrossReplicaAndPartition,
    FlattenedIds,
}

impl Strategy {
    /// Of the collectives that know global device ids.
    pub fn global(channel: i64, use_global_device_ids: bool) -> Self {
        match (channel > 0, use_global_device_ids) {
            (true, true) => Strategy::FlattenedIds,
            (true, false) => Strategy::CrossReplicaAndPartition,
            _ => Strategy::CrossReplica,
        }
    }

    /// Of the others.
    pub fn simple(channel: i64) -> Self {
        if channel > 0 { Strategy::CrossPartition } else { Strategy::CrossReplica }
    }

    fn count(self, process: &Process) -> usize {
        let grid = &process.grid;
        match self {
            Strategy::CrossPartition => grid.partitions,
            Strategy::FlattenedIds => grid.replicas * grid.partitions,
            _ => grid.replicas,
        }
    }

    /// The group of processes (by flat id) that `process` is in when ids are grouped like this.
    fn group(self, process: &Process, lists: &[Vec<usize>]) -> Option<Vec<usize>> {
        let partitions = process.grid.partitions;
        let (replica, partition) = (process.replica(), process.partition());
        let own = match self {
            Strategy::CrossReplica | Strategy::CrossReplicaAndPartition => replica,
            Strategy::CrossPartition => partition,
            Strategy::FlattenedIds => process.id,
        };
        let list = lists.iter().find(|list| list.contains(&own))?;
        let flat = |replica: &usize, partition: usize| replica * partitions + partition;
        Some(match self {
            Strategy::CrossReplica => list.iter().map(|r| flat(r, partition)).collect(),
            Strategy::CrossPartition => list.iter().map(|p| flat(&replica, *p)).collect(),
            Strategy::CrossReplicaAndPartition => (0..partitions)
                .flat_map(|partition| list.iter().map(move |r| flat(r, partition)))
                .collect(),
            Strategy::FlattenedIds => list.clone(),
        })
    }
}

/// The process group of the process at hand; none if it takes part in no group.
pub(crate) fn group_of(
    cx: &Cx<'_, '_>,
    groups: &ReplicaGroups,
    strategy: Strategy,
) -> EvalResult<Option<Vec<usize>>> {
    let process = &cx.interpreter.process;
    let lists = groups.lists(strategy.count(process)).map_err(|problem| cx.error(problem))?;
    Ok(strategy.group(process, &lists))
}

/// Exchanges parcels within a group, in the group's order.
pub(crate) fn exchange(
    cx: &Cx<'_, '_>,
    op: &'static str,
    channel: i64,
    group: &[usize],
    parcel: Parcel,
) -> EvalResult<Vec<Parcel>> {
    let meeting = Meeting { op, channel, members: group.to_vec() };
    cx.interpreter.process.meet(&meeting, parcel, cx.interpreter.limits.deadline)
}

/// Whom the process at hand sends to and whom it receives from, by flat id.
pub(crate) fn partners(
    cx: &Cx<'_, '_>,
    pairs: &Rows,
    strategy: Strategy,
) -> Result<(Option<usize>, Option<usize>), EvalError> {
    let process = &cx.interpreter.process;
    let count = strategy.count(process);
    let partitions = process.grid.partitions;
    let across = strategy == Strategy::CrossPartition;
    let own = if across { process.partition() } else { process.replica() };
    let flat = |id: usize| {
        let (replica, partition) =
            if across { (process.replica(), id) } else { (id, process.partition()) };
        replica * partitions + partition
    };
    let mut found = (None, None);
    for pair in pairs.iter() {
        let &[source, target] = pair else { continue };
        for id in [source, target] {
            if !(0..count as i64).contains(&id) {
                return Err(cx.error(format!(
                    "source_target_pairs holds {id}, but there are only {count} of them"
                )));
            }
        }
        if source as usize == own {
            found.0 = Some(flat(target as usize));
        }
        if target as usize == own {
            found.1 = Some(flat(source as usize));
        }
    }
    Ok(found)
}

/// The number of an optional channel; none is 0.
pub(crate) fn channel_of(handle: Option<ChannelHandle>) -> i64 {
    handle.map_or(0, |handle| handle.handle)
}
