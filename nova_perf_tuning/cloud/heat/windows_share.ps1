#ps1_sysnative
# What the Windows guest of windows_share.yaml runs once, by cloudbase-init: a share that only the client reaches, and
# word to Heat that it is there. heat/windows_share.yaml fills in the @WORDS@. Needs Windows Server 2016 or later.
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
$share = '@SHARE_NAME@'
$user = '@USER@'
$client = '@CLIENT@'
$folder = Join-Path $env:SystemDrive 'nova-perf-share'
$rule = 'nova-perf-share'
[Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor 3072 # TLS 1.2

# One signal to Heat. The router may need a while until it forwards; what was sent is not sent again.
function Send-Signal([string]$Status, [string]$Text) {
    $line = $Text -replace '[^ -~]+', ' '
    $line = $line.Substring(0, [Math]::Min(1000, $line.Length))
    $body = @{ status = $Status; id = 'windows'; reason = $line; data = $line } | ConvertTo-Json -Compress
    $headers = @{ 'X-Auth-Token' = '@TOKEN@'; 'Accept' = 'application/json' }
    foreach ($pause in 1, 2, 3, 5, 8, 13, 20, 30, 60, 60) {
        try {
            Invoke-WebRequest -UseBasicParsing -Method Post -Uri '@ENDPOINT@' -Headers $headers `
                -ContentType 'application/json' -Body $body -TimeoutSec 120 | Out-Null
            return
        } catch {
            Write-Output "nova-perf: Heat cannot be told ($($_.Exception.Message)); trying again in $pause s"
            Start-Sleep -Seconds $pause
        }
    }
    Write-Output 'nova-perf: giving up. Is Heat reached, and its certificate trusted, from this network?'
}

# What decides how fast the share can be, for the person who reads the stack's outputs.
function Get-Facts {
    $system = Get-CimInstance Win32_OperatingSystem
    $server = Get-SmbServerConfiguration
    $cards = (Get-NetAdapter | Where-Object Status -eq 'Up' | ForEach-Object InterfaceDescription) -join ', '
    $disks = (Get-CimInstance Win32_DiskDrive | ForEach-Object Model) -join ', '
    $scanner = 'unknown'
    if (Get-Command Get-MpComputerStatus -ErrorAction SilentlyContinue) {
        try { $scanner = (Get-MpComputerStatus).RealTimeProtectionEnabled } catch { $scanner = 'unknown' }
    }
    "$($system.Caption) $($system.Version); NIC $cards; disk $disks; " +
    "hypervisor seen $((Get-CimInstance Win32_ComputerSystem).HypervisorPresent); " +
    "SMB signing required $($server.RequireSecuritySignature), encryption $($server.EncryptData); " +
    "virus scanner at work $scanner"
}

try {
    if ('@TX_OFFLOAD@' -eq 'False') {
        Disable-NetAdapterLso -Name '*'
        Disable-NetAdapterChecksumOffload -Name '*'
    }

    # Letters and digits only: nothing that a quote would have to protect.
    $password = ConvertTo-SecureString '@PASSWORD@' -AsPlainText -Force
    if (Get-LocalUser -Name $user -ErrorAction SilentlyContinue) {
        Set-LocalUser -Name $user -Password $password
    } else {
        New-LocalUser -Name $user -Password $password -PasswordNeverExpires -AccountNeverExpires `
            -UserMayNotChangePassword -Description 'Share of nova-perf-tuning' | Out-Null
    }

    New-Item -ItemType Directory -Force -Path $folder | Out-Null
    & icacls.exe $folder /grant "${user}:(OI)(CI)M" | Out-Null
    if ($LASTEXITCODE) { throw "icacls ended with status $LASTEXITCODE" }
    if (Get-SmbShare -Name $share -ErrorAction SilentlyContinue) { Remove-SmbShare -Name $share -Force }
    New-SmbShare -Name $share -Path $folder -ChangeAccess "$env:COMPUTERNAME\$user" | Out-Null

    # Making a share opens port 445 for everybody in many releases; only our rule stays, and it names the client.
    Set-NetFirewallProfile -All -Enabled True
    Get-NetFirewallPortFilter -Protocol TCP | Where-Object LocalPort -eq 445 | Get-NetFirewallRule |
        Where-Object { $_.Direction -eq 'Inbound' -and $_.Action -eq 'Allow' -and $_.Name -ne $rule } |
        Disable-NetFirewallRule
    Remove-NetFirewallRule -Name $rule -ErrorAction SilentlyContinue
    New-NetFirewallRule -Name $rule -DisplayName 'nova-perf-tuning share' -Direction Inbound -Action Allow `
        -Profile Any -Protocol TCP -LocalPort 445 -RemoteAddress $client | Out-Null

    try { $facts = Get-Facts } catch { $facts = "no facts: $($_.Exception.Message)" }
    Send-Signal 'SUCCESS' "ready: $facts"
} catch {
    Send-Signal 'FAILURE' "windows: $($_.Exception.Message) at line $($_.InvocationInfo.ScriptLineNumber)"
}
# 1001 to 1003 would make cloudbase-init start the guest again or run this once more.
exit 0
