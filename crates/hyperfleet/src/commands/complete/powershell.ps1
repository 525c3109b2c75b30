# Completion of hyperfleet for PowerShell: hyperfleet completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName hyperfleet -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -le $cursorPosition } | ForEach-Object { $_.ToString() })
    $words = @($words | Select-Object -Skip 1)
    if ($wordToComplete -eq '') { $words += '' }
    & hyperfleet __complete -- @words 2>$null | ForEach-Object {
        $value, $meaning = $_ -split "`t", 2
        if (-not $meaning) { $meaning = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $meaning)
    }
}
