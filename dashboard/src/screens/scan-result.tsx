// SPDX-License-Identifier: Apache-2.0
// The report of trivy or grype: counts by severity and the findings.

import { t } from "../texts.ts";
import { Badge, SmallTable } from "../ui/controls.tsx";

export interface Finding {
  severity: string;
  package: string;
  id: string;
  installed: string;
  fixed: string;
  url: string;
  title: string;
}

interface Trivy {
  Results?: { Vulnerabilities?: { Severity?: string; PkgName?: string; VulnerabilityID?: string; InstalledVersion?: string; FixedVersion?: string; PrimaryURL?: string; Title?: string }[] }[];
}

interface Grype {
  matches?: { vulnerability?: { id?: string; severity?: string; fix?: { versions?: string[] }; dataSource?: string; description?: string }; artifact?: { name?: string; version?: string } }[];
}

/** The findings of a report, the most severe first; undefined if it has neither format. */
export function findings(report: string): Finding[] | undefined {
  let parsed: Trivy & Grype;
  try {
    parsed = JSON.parse(report) as Trivy & Grype;
  } catch {
    return undefined;
  }
  if (!parsed || (!("Results" in parsed) && !("matches" in parsed) && !("SchemaVersion" in parsed))) return undefined;
  const trivy = (parsed.Results ?? []).flatMap((result) => result.Vulnerabilities ?? []).map((each) => ({
    severity: (each.Severity ?? "unknown").toLowerCase(), package: each.PkgName ?? "", id: each.VulnerabilityID ?? "", installed: each.InstalledVersion ?? "", fixed: each.FixedVersion ?? "", url: each.PrimaryURL ?? "", title: each.Title ?? "",
  }));
  const grype = (parsed.matches ?? []).map(({ vulnerability: found, artifact }) => ({
    severity: (found?.severity ?? "unknown").toLowerCase(), package: artifact?.name ?? "", id: found?.id ?? "", installed: artifact?.version ?? "", fixed: (found?.fix?.versions ?? []).join(", "), url: found?.dataSource ?? "", title: found?.description ?? "",
  }));
  const order: readonly string[] = t.images.severities;
  const rank = (finding: Finding) => (order.indexOf(finding.severity) + order.length + 1) % (order.length + 1);
  return [...trivy, ...grype].sort((a, b) => rank(a) - rank(b) || a.package.localeCompare(b.package) || a.id.localeCompare(b.id));
}

const TONES: Record<string, "bad" | "warn" | "idle"> = { critical: "bad", high: "bad", medium: "warn" };

export function ScanResult({ report }: { report: string }) {
  const found = findings(report);
  if (!found) return <pre class="scan">{report.slice(0, 200_000)}</pre>;
  if (found.length === 0) return <p>{t.images.noFindings}</p>;
  const link = ({ id, url }: Finding) => (/^https?:\/\//.test(url) ? <a href={url} target="_blank" rel="noopener noreferrer">{id}</a> : <>{id}</>);
  return (
    <>
      <p class="severities">{t.images.severities.map((severity) => <Badge key={severity} tone={TONES[severity] ?? "idle"}>{severity} {found.filter((each) => each.severity === severity).length}</Badge>)}</p>
      <div class="scan"><SmallTable label={t.images.showResult} head={t.images.scanHead} rows={found.slice(0, 500).map((each) => [each.severity, each.package, link(each), each.installed, each.fixed, each.title])} /></div>
    </>
  );
}
