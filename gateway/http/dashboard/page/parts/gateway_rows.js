// Gateways of the overview, with the reason of each that gave no answer.

/** All gateways, those without an answer first.  `reason`: null where it answered; figures of others are null. */
export function gatewayRows({ gateways = [], answered }) {
  const reasons = new Map((answered?.missing ?? []).map((each) => [each.name, each.reason]));
  const there = gateways.filter((each) => !reasons.has(each.name)).map((each) => ({ ...each, reason: null }));
  const known = new Map(gateways.map((each) => [each.name, each]));
  const away = [...reasons].map(([called, reason]) => ({ version: null, startedAt: null, ...known.get(called), name: called, reason, connections: null, cpu: null, openFiles: null }));
  return [...away, ...there];
}
