//! Answers in Kubernetes' protobuf, written from the JSON of the objects.

use atoll_meta::json;
use atoll_schema::{TypeId, Types};
use atoll_wire::{Encoder, write_message, write_sealed};
use bytes::Bytes;

use crate::negotiate::Meta;

/// An object in its envelope; nothing for a kind that is known only as JSON.
pub fn sealed(json: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(json.len() + 64);
    Encoder::new(Types::get()).sealed(json, &mut out).then_some(out)
}

/// One event of a watch, of which `json` is the object in its final form.
pub fn frame(event_type: &str, json: &[u8]) -> Bytes {
    Bytes::from(atoll_wire::frame(event_type, &sealed(json).unwrap_or_default()))
}

/// A list that is being written.
pub struct List {
    encoder: Encoder<'static>,
    item: Item,
    items: Vec<u8>,
}

/// What is written of an item.
enum Item {
    Whole(TypeId),
    /// In the field with this number.
    Metadata(u32),
}

/// Where lists have their metadata and their items.
const METADATA: u32 = 1;
const ITEMS: u32 = 2;

impl List {
    /// A list of objects; `size` is a guess at how long it will be.
    pub fn of_objects(item: TypeId, size: usize) -> Self {
        List::new(Item::Whole(item), size)
    }

    pub fn of_metadata(version: Meta, size: usize) -> Self {
        // The first version of these lists had its fields the other way round.
        List::new(Item::Metadata(if version == Meta::V1 { ITEMS } else { METADATA }), size)
    }

    fn new(item: Item, size: usize) -> Self {
        List { encoder: Encoder::new(Types::get()), item, items: Vec::with_capacity(size) }
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

    /// The list in its envelope; `metadata` is its own, as JSON.
    pub fn finish(mut self, api_version: &str, kind: &str, metadata: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.items.len() + metadata.len() + 256);
        write_sealed(api_version, kind, &mut out, |out| {
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
