// Readings of a report: sums and orders over its entries, nothing else. No document here.
export const CONTEXT = 'context';
export const SEEN = 0.004; // of the peak: what never reaches it is too thin to be seen in a picture

// What PyTorch gives back to the driver before it fails: of the peak, but not of what must find room. It stands apart, under a name of its own.
const isGivenBack = (e) => e.component === 'fragmentation' && e.what === 'allocator_cache';

const GIVEN_BACK = 'given_back';
export const keyOf = (entry) => `${entry.role}/${isGivenBack(entry) ? GIVEN_BACK : entry.component}`;
export const partOf = (group) => (group.back ? GIVEN_BACK : group.component);
export const alive = (report, phase) => report.entries.filter((e) => e.phases.includes(phase));
const sum = (entries) => entries.reduce((s, e) => s + e.bytes, 0);

// Entries by whose they are and which component, in the core's own order of roles and components; what is only allowed for comes last, and behind
// it what is given back: past the card's edge there is first what need not be there.
export function groups(entries, lists) {
  const by = new Map();
  for (const entry of entries) {
    const key = keyOf(entry);
    if (!by.has(key)) by.set(key, { key, role: entry.role, component: entry.component, back: isGivenBack(entry), entries: [] });
    by.get(key).entries.push(entry);
  }
  const place = (list, id) => { const at = lists[list].indexOf(id); return at < 0 ? 999 : at; };
  return [...by.values()]
    .map((g) => ({ ...g, bytes: sum(g.entries), kind: mainKind(g.entries) }))
    .sort((a, b) => a.back - b.back || (a.kind === 'allowance') - (b.kind === 'allowance') || place('role', a.role) - place('role', b.role) || place('component', a.component) - place('component', b.component));
}

// A group is what most of its bytes are.
export function mainKind(entries) {
  const by = {};
  for (const e of entries) by[e.kind] = (by[e.kind] ?? 0) + e.bytes;
  return Object.keys(by).sort((a, b) => by[b] - by[a])[0];
}

// How a group is drawn: hatched when it is no tensor's.
export const lookOf = (group) => (group.back ? 'given-back' : group.kind);
export const isHatched = (group) => group.back || group.kind === 'allowance';

export const kindsOf = (entries) => [...new Set(entries.map((e) => e.kind))];

// The peak without the context: `usable` has already given that away.
export function need(report) {
  return report.peak.bytes - sum(alive(report, report.peak.phase).filter((e) => e.component === CONTEXT));
}

const givenBackIn = (report, phase) => sum(alive(report, phase).filter(isGivenBack));
export const givenBack = (report) => givenBackIn(report, report.peak.phase);

// The core's instants count what is given back as fragmentation; it stands all through a phase, and apart here as in the ledger.
export function timelineOf(report, timeline) {
  const at = timeline?.components.indexOf('fragmentation') ?? -1;
  if (at < 0) return timeline;
  const points = timeline.points.map((point) => {
    const back = Math.min(point.bytes[at], givenBackIn(report, point.phase));
    return { ...point, bytes: [...point.bytes.map((b, i) => (i === at ? b - back : b)), back] };
  });
  return { components: [...timeline.components, GIVEN_BACK], points };
}

// What must find room, as the verdict counts it: how much, when, made of what, and the room (of an engine with a pool, its budget).
export function demandOf(report) {
  const { needed_bytes: needed, headroom_bytes: headroom } = report.fits[0];
  const at = (phase) => alive(report, phase).filter((e) => e.component !== CONTEXT && !isGivenBack(e));
  const phase = report.phases.map((p) => p.id).reduce((most, id) => (sum(at(id)) > sum(at(most)) ? id : most), report.peak.phase);
  return { phase, entries: at(phase), bytes: needed, room: needed + headroom };
}

// Of an engine with a pool: what it may use is less than what the card has.
export const isPooled = (fit) => fit.needed_bytes + fit.headroom_bytes < fit.usable_bytes;

export const contextAtPeak = (report) => report.peak.bytes - need(report);

// What the verdict holds against each other, both with the context; outside: the peak has more (SGLang's activations lie beside its pools), so it is not what must find room.
export function roomOf(report) {
  const { needed_bytes: needed, headroom_bytes: headroom } = report.fits[0];
  const wanted = needed + contextAtPeak(report);
  return { wanted, budget: wanted + headroom, outside: isPooled(report.fits[0]) && report.peak.bytes - givenBack(report) > wanted };
}

// What fills the card: everything alive at the peak but the context, which the card has already given away.
export const segmentsOf = (report, lists) => groups(alive(report, report.peak.phase), lists).filter((g) => g.component !== CONTEXT);

// The card of the scenario, as the presets know it; a stated memory counts.
export function cardOf(report, presets) {
  const fit = report.fits[0];
  const preset = presets.gpus.find((g) => g.id === fit.gpu);
  return { fit, name: preset?.name ?? fit.gpu, context: preset?.context_bytes ?? contextAtPeak(report), preset };
}
