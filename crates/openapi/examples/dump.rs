use atoll_openapi::*;
fn main() {
    let out = std::env::args().nth(1).expect("dir");
    std::fs::create_dir_all(format!("{out}/v3")).expect("dir");
    let s = |t: &&str| t.to_string();
    let resources = atoll_schema::resources()
        .iter()
        .map(|r| Resource {
            group: r.group.into(),
            version: r.version.into(),
            resource: r.resource.into(),
            kind: r.kind.into(),
            namespaced: r.namespaced,
            verbs: r.verbs.iter().map(s).collect(),
            returns_deleted: false,
            subresources: r
                .subresources
                .iter()
                .map(|x| Subresource {
                    name: x.name.into(),
                    group: x.group.unwrap_or_default().into(),
                    version: x.version.unwrap_or_default().into(),
                    kind: x.kind.into(),
                    verbs: x.verbs.iter().map(s).collect(),
                })
                .collect(),
        })
        .collect();
    let api = Api::new(resources, vec![]);
    let t = std::time::Instant::now();
    let author = api.author();
    eprintln!("author {:?}", t.elapsed());
    let mut total = 0;
    for p in author.paths() {
        let mut d = Vec::new();
        author.v3(&p, &mut d).expect("doc");
        total += d.len();
        std::fs::write(format!("{out}/v3/{}.json", p.replace('/', "_")), d).expect("write");
    }
    eprintln!("v3 {total} {:?}", t.elapsed());
    let mut d = Vec::new();
    author.v2(&mut d).expect("v2");
    std::fs::write(format!("{out}/v2.json"), d).expect("write");
    eprintln!("v2 {:?}", t.elapsed());
    author.v2_protobuf(&mut std::fs::File::create(format!("{out}/v2.pb")).expect("file")).expect("write");
}
