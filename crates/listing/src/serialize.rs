//! Listings for programs: sequences, structures and plain values of any format of serde.
//!
//! A row always has all its fields, and a missing value is none. A private descriptor is a string,
//! since its 64 bits do not fit the numbers of JSON; a time is a string of RFC 3339.

use core::fmt::Display;

use serde_core::ser::{Serialize, SerializeStruct, Serializer};

use super::{Description, Descriptor, Listing, Row};
use fdtable::{Access, FdFlags};

/// The sequence of the rows.
impl Serialize for Listing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

/// The fields `label`, `fd`, `cloexec`, `private_fd`, `references`, `revoked` and `description`.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (fd, flags, private) = match self.descriptor {
            Some(Descriptor::Fd { fd, flags }) => (Some(fd), Some(flags), None),
            Some(Descriptor::Private(fd)) => (None, None, Some(fd)),
            None => (None, None, None),
        };
        let cloexec = flags.map(|flags| flags.contains(FdFlags::CLOEXEC));
        let mut row = serializer.serialize_struct("Row", 7)?;
        row.serialize_field("label", &self.label.as_deref())?;
        row.serialize_field("fd", &fd.map(|fd| fd.raw()))?;
        row.serialize_field("cloexec", &cloexec)?;
        row.serialize_field("private_fd", &private.map(Text))?;
        row.serialize_field("references", &self.references)?;
        row.serialize_field("revoked", &self.revoked)?;
        row.serialize_field("description", &self.description)?;
        row.end()
    }
}

/// The fields `kind`, `name`, `access` (`read`, `write`), `owner`, `since`, `inode`, `size` and
/// `position`.
impl Serialize for Description {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let access = self.access.map(|access| match access {
            Access::Read => "read",
            Access::Write => "write",
        });
        let mut description = serializer.serialize_struct("Description", 8)?;
        description.serialize_field("kind", &*self.kind)?;
        description.serialize_field("name", &*self.name)?;
        description.serialize_field("access", &access)?;
        description.serialize_field("owner", &self.owner.as_deref())?;
        description.serialize_field("since", &self.since.map(Text))?;
        description.serialize_field("inode", &self.inode)?;
        description.serialize_field("size", &self.size)?;
        description.serialize_field("position", &self.position)?;
        description.end()
    }
}

/// A value that is written as it is printed.
struct Text<D>(D);

impl<D: Display> Serialize for Text<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
