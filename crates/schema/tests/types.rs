//! Consistency of the facts about types.

use std::collections::HashSet;

use atoll_schema::{ListType, Map, TypeRef, Types, Wire};

#[test]
fn field_facts_are_known() {
    let types = Types::get();
    let pod_spec = types.by_key("core/v1.PodSpec").unwrap();
    let containers = types.field(pod_spec, "containers").unwrap();
    assert_eq!(containers.go_name, "Containers");
    assert_eq!(containers.kind.go_name(types), "[]v1.Container");
    assert_eq!((containers.patch_strategy, containers.patch_merge_key), (Some("merge"), Some("name")));
    assert_eq!((containers.list_type, &containers.map_keys[..]), (Some(ListType::Map), &["name"][..]));
    let proto = containers.proto.unwrap();
    assert_eq!((proto.number, proto.wire, proto.repeated), (2, Wire::Bytes, true));

    let container = types.by_key("core/v1.Container").unwrap();
    let ports = types.field(container, "ports").unwrap();
    assert_eq!(ports.map_keys, ["containerPort", "protocol"]);
    let TypeRef::List(list) = ports.kind else { panic!("ports are a list") };
    let TypeRef::Struct(port) = list.element else { panic!("of structs") };
    let protocol = types.field(port, "protocol").unwrap();
    assert_eq!(protocol.default, Some("\"TCP\""));
    let TypeRef::Named(scalar) = protocol.kind else { panic!("a protocol has a type of its own") };
    assert_eq!(scalar.values.as_deref(), Some(&["TCP", "UDP", "SCTP"][..]));

    // Embedded structs are flattened in JSON.
    let volume = types.by_key("core/v1.Volume").unwrap();
    assert_eq!(types.field(volume, "emptyDir").unwrap().kind.go_name(types), "v1.EmptyDirVolumeSource");
    let requirements = types.by_key("core/v1.ResourceRequirements").unwrap();
    let TypeRef::Map(Map { key, .. }) = types.field(requirements, "limits").unwrap().kind else {
        panic!("a map")
    };
    assert_eq!(*key, Some("core/v1.ResourceList"));
    assert!(types[types.by_key("meta/v1.LabelSelector").unwrap()].atomic);
}

#[test]
fn options_belong_to_every_group() {
    let types = Types::get();
    let options = types.by_kind("apps", "v1", "DeleteOptions");
    assert!(options.is_some());
    assert_eq!(options, types.by_kind("", "v1", "DeleteOptions"));
    assert_eq!(types.by_kind("apps", "v1", "Pod"), None);
}

#[test]
fn protobuf_numbers_are_unique_and_merge_keys_exist() {
    let types = Types::get();
    for owner in types.iter() {
        let mut numbers = HashSet::new();
        for field in &owner.fields {
            if let Some(proto) = field.proto {
                assert!(numbers.insert(proto.number), "{} has number {} twice", owner.key, proto.number);
            }
            let merge_keys = field.map_keys.iter().copied().chain(field.patch_merge_key);
            for key in merge_keys {
                let TypeRef::List(list) = field.kind else {
                    panic!("{}.{} has merge keys and is no list", owner.key, field.name);
                };
                match list.element {
                    TypeRef::Struct(element) => assert!(
                        types.field(element, key).is_some(),
                        "{}.{} merges by {key}, which its elements do not have",
                        owner.key,
                        field.name
                    ),
                    // Upstream has meaningless merge keys on lists of strings.
                    _ => assert_eq!(field.patch_strategy, Some("merge"), "{}.{}", owner.key, field.name),
                }
            }
            if let Some(default) = field.default {
                assert!(
                    serde_json::from_str::<serde_json::Value>(default).is_ok(),
                    "{}.{}: default {default} is not JSON",
                    owner.key,
                    field.name
                );
            }
        }
    }
}
