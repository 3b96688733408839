use std::sync::Arc;

use atoll_store::Key;
use atoll_watch::Facts;

use super::*;

fn body(sizes: &[usize]) -> ListBody {
    let object = |(number, size): (usize, &usize)| {
        let data = "x".repeat(*size);
        let stored =
            format!(r#"{{"kind":"K","apiVersion":"v1","metadata":{{"name":"{number}"}},"d":"{data}"}}"#);
        let key = Key::object("", "things", "root", "n", &number.to_string());
        Arc::new(Object::new(key, 7, stored.as_bytes(), Facts::none()))
    };
    let objects: Vec<_> = sizes.iter().enumerate().map(object).collect();
    ListBody::new(b"{\"items\":[".to_vec(), objects.into(), Items::new(Item::Typed, false))
}

#[test]
fn chunks_make_up_the_list_and_are_limited() {
    let most = MAX_CHUNK - 100;
    for sizes in [
        vec![],
        vec![1000; 500],
        vec![most, most, 10, most],
        vec![10, 3 * MAX_CHUNK, 10],
        (0..300).map(|number| number * 17 % 5000).collect(),
    ] {
        let mut chunks = Vec::new();
        let mut list = body(&sizes);
        while let Some(chunk) = list.next_chunk() {
            let chunk = chunk.into_bytes();
            let whole_object = sizes.iter().any(|size| chunk.len() > *size && *size >= most);
            assert!(chunk.len() <= MAX_CHUNK || whole_object, "{} bytes", chunk.len());
            chunks.extend_from_slice(&chunk);
        }
        let mut whole = body(&sizes).into_bytes(0);
        whole.push(b'\n');
        assert_eq!(chunks, whole);
        let list: serde_json::Value = serde_json::from_slice(&chunks).unwrap();
        let items = list["items"].as_array().unwrap();
        let lengths: Vec<usize> = items.iter().map(|item| item["d"].as_str().unwrap().len()).collect();
        assert_eq!(lengths, sizes);
        assert!(items.iter().all(|item| item["metadata"]["resourceVersion"] == "7"));
    }
}
#[test]
fn task_yields_after_each_chunk_but_the_last() {
    let mut context = Context::from_waker(std::task::Waker::noop());
    let (mut list, mut expected) = (body(&vec![1000; 1500]), body(&vec![1000; 1500]).into_bytes(0));
    expected.push(b'\n');
    let (mut all, mut count) = (Vec::new(), 0);
    while let Poll::Ready(Some(chunk)) = list.poll_chunk(&mut context) {
        all.extend_from_slice(&chunk.into_bytes());
        count += 1;
        assert_eq!(list.is_done(), all.len() == expected.len());
        assert_eq!(list.sending, !list.is_done());
        if !list.is_done() {
            assert!(list.poll_chunk(&mut context).is_pending());
        }
    }
    assert!(matches!(list.poll_chunk(&mut context), Poll::Ready(None)));
    assert!(all == expected);
    assert!(count > 3);
}

#[test]
fn items_start_with_their_metadata() {
    let mut items = Items::new(Item::Typed, false);
    for (json, shown) in [
        (r#"{"kind":"K","apiVersion":"v1","metadata":{"name":"a"}}"#, r#""metadata":{"name":"a"}}"#),
        (r#"{"kind":"K","apiVersion":"v1","metadata":{"name":"b"}}"#, r#""metadata":{"name":"b"}}"#),
        (r#"{"kind":"K","apiVersion":"v10","metadata":{"name":"b"}}"#, r#""metadata":{"name":"b"}}"#),
        (r#"{"kind":"K","apiVersion":"v1","other":{}}"#, r#""kind":"K","apiVersion":"v1","other":{}}"#),
        (r#"{"metadata":{"name":"c"}}"#, r#""metadata":{"name":"c"}}"#),
        (r#"{"kind":"L","apiVersion":"v1","metadata":{}}"#, r#""metadata":{}}"#),
    ] {
        let start = items.prefix_len(json.as_bytes());
        assert_eq!((&json[start..], start), (shown, json::prefix_len(json.as_bytes())));
    }
}
