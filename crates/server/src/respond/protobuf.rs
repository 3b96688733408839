//! Responses in Kubernetes' protobuf, encoded from the JSON of the objects.

use atoll_meta::json;
use atoll_schema::{TypeId, Types};
use atoll_wire::{Encoder, write_envelope, write_message};
use bytes::Bytes;

use crate::negotiate::Meta;

/// Returns an enveloped object, `None` for a kind without protobuf.
pub fn enveloped(json: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(json.len() + 64);
    Encoder::new(Types::get()).enveloped(json, &mut out).then_some(out)
}

/// Returns one watch event with an object in its final form.
pub fn frame(event_type: &str, json: &[u8]) -> Bytes {
    Bytes::from(atoll_wire::frame(event_type, &enveloped(json).unwrap_or_default()))
}

/// A list that is being encoded.
pub struct ProtobufList {
    encoder: Encoder<'static>,
    item: Item,
    items: Vec<u8>,
}

/// The part of an object that an item contains.
enum Item {
    Whole(TypeId),
    /// With the number of the field of items.
    Metadata(u32),
}

/// Field numbers of metadata and items in lists.
const METADATA: u32 = 1;
const ITEMS: u32 = 2;

impl ProtobufList {
    /// A list of objects with the expected `size`.
    pub fn of_objects(item: TypeId, size: usize) -> Self {
        ProtobufList::new(Item::Whole(item), size)
    }

    pub fn of_metadata(version: Meta, size: usize) -> Self {
        // In v1beta1, the two fields were swapped.
        ProtobufList::new(Item::Metadata(if version == Meta::V1 { ITEMS } else { METADATA }), size)
    }

    fn new(item: Item, size: usize) -> Self {
        ProtobufList { encoder: Encoder::new(Types::get()), item, items: Vec::with_capacity(size) }
    }

    pub fn push(&mut self, stored: &[u8]) {
        let encoder = &mut self.encoder;
        match self.item {
            Item::Whole(id) => {
                write_message(ITEMS, &mut self.items, |out| encoder.message(id, stored, out));
            }
            Item::Metadata(number) => {
                let metadata = json::metadata_of(stored).unwrap_or(b"{}");
                write_message(number, &mut self.items, |out| {
                    write_message(METADATA, out, |out| encoder.part("meta/v1.ObjectMeta", metadata, out));
                });
            }
        }
    }

    /// Returns the enveloped list. `metadata` is the list's own, as JSON.
    pub fn finish(mut self, api_version: &str, kind: &str, metadata: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.items.len() + metadata.len() + 256);
        write_envelope(api_version, kind, &mut out, |out| {
            if let Item::Metadata(METADATA) = self.item {
                out.extend_from_slice(&self.items);
                write_message(ITEMS, out, |out| self.encoder.part("meta/v1.ListMeta", metadata, out));
            } else {
                write_message(METADATA, out, |out| self.encoder.part("meta/v1.ListMeta", metadata, out));
                out.extend_from_slice(&self.items);
            }
        });
        out
    }
}
